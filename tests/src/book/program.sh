#!/bin/sh
# Every program that the book's pages call, under its name: it finds the real one and says the port
# that pages leave out. `stage.rs` writes what stands between the signs @.
name=$(basename "$0")

has() { # WORDS ARGUMENTS..: whether one of the words is among the arguments
    wanted=$1
    shift
    for word; do
        for one in $wanted; do
            [ "$word" = "$one" ] && return 0
        done
    done
    return 1
}

says() { # DIRECTIVE ARGUMENTS..: whether a command line or a file on it says something of it
    directive=$1
    shift
    has "--$directive" "$@" && return 0
    for word; do
        case $word in *.conf) grep -q "^$directive " "$word" && return 0 ;; esac
    done
    return 1
}

serve() { # PROGRAM ARGUMENTS..: a server of Redis' kind
    program=$1
    shift
    says port "$@" || set -- "$@" --port 6379
    says bind "$@" || set -- "$@" --bind 127.0.0.1
    exec "$program" "$@"
}

call() { # PROGRAM ARGUMENTS..: a client
    program=$1
    shift
    has '-p --port -s -u' "$@" || set -- -p 6379 "$@"
    exec "$program" "$@"
}

case $name in
apus)
    case $1 in
    bench | cli | ping)
        verb=$1
        shift
        has '-p --port -s -u' "$@" || set -- -p 6379 "$@"
        exec @apus@ "$verb" "$@"
        ;;
    check | help | --help | --version) exec @apus@ "$@" ;;
    memcached) exec @apus@ "$@" -l 127.0.0.1 ;;
    sentinel) exec @apus@ "$@" --bind 127.0.0.1 ;;
    esac
    serve @apus@ "$@"
    ;;
redis-cli)
    # As at a terminal, where nothing takes its output on.
    [ "$BOOK_TERMINAL" ] && set -- --no-raw "$@"
    call @redis_cli@ "$@"
    ;;
redis-benchmark) call @redis_benchmark@ "$@" ;;
redis-server) serve @redis70@ "$@" ;;
valkey-server) serve @valkey91@ "$@" ;;
memcached)
    [ "$(id -u)" = 0 ] && set -- -u root "$@"
    exec @memcached@ "$@" -l 127.0.0.1
    ;;
python3) exec @python@ "$@" ;;
node) NODE_PATH=@npm@/node_modules exec @node@ "$@" ;;
esac
