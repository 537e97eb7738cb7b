//! Client libraries that find their primary by a Sentinel of ours, and find the next one.

use tests::clients::{SentinelClient, through_failover};
use tests::sentinel::{SentinelProgram, World};

fn is_led_by(client: SentinelClient) {
    let mut world = World::start(1, &[]);
    let sentinel = SentinelProgram::Apus.watch(&world, 1, "");
    sentinel.meet(1, 0);
    through_failover(client, &sentinel, &mut world);
}

#[test]
fn redis_py_finds_the_next_primary() {
    is_led_by(SentinelClient::RedisPy);
}

#[test]
fn ioredis_finds_the_next_primary() {
    is_led_by(SentinelClient::Ioredis);
}

#[test]
fn jedis_finds_the_next_primary() {
    is_led_by(SentinelClient::Jedis);
}

#[test]
fn go_redis_finds_the_next_primary() {
    is_led_by(SentinelClient::GoRedis);
}
