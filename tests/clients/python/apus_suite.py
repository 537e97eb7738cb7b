"""A pytest plugin which runs redis-py's own suite against Apus: leaves out what the exclusions name, with their
reasons, lets tests of newer servers run, and ends with the line `N passed, N failed` that the Rust test reads."""

import fnmatch

import pytest

counts = {"passed": 0, "failed": 0}


def pytest_addoption(parser):
    parser.addoption("--exclusions", help="file of lines `glob of a node id | reason`")
    parser.addoption("--as-version", help="the server version which version gates shall see")
    parser.addoption("--share", default="0/1", help="K/N: run each Nth test behind the first K")
    parser.addoption("--only-excluded", action="store_true", help="run what the exclusions name instead")


@pytest.hookimpl(trylast=True)
def pytest_sessionstart(session):
    version = session.config.getoption("--as-version")
    if version:
        session.config.REDIS_INFO["version"] = version


def exclusions(config):
    """The globs, in the order of the file."""
    with open(config.getoption("--exclusions"), encoding="ascii") as file:
        lines = [line.strip() for line in file]
    for line in lines:
        if "|" in line and not line.startswith("#"):
            glob, reason = line.split("|", 1)
            assert reason.strip(), f"no reason: {line}"
            yield glob.strip()


def pytest_collection_modifyitems(config, items):
    globs = list(exclusions(config))
    idle = set(globs)
    kept, excluded = [], []
    for item in items:
        name = item.nodeid.removeprefix("tests/")
        found = [glob for glob in globs if fnmatch.fnmatchcase(name, glob)]
        idle.difference_update(found)
        (excluded if found else kept).append(item)
    if idle:
        raise pytest.UsageError(f"exclusions that name no test: {sorted(idle)}")
    if config.getoption("--only-excluded"):
        kept, excluded = excluded, kept
    first, step = map(int, config.getoption("--share").split("/"))
    items[:] = kept[first::step]
    excluded += [item for number, item in enumerate(kept) if number % step != first]
    config.hook.pytest_deselected(items=excluded)


def pytest_runtest_logreport(report):
    if report.failed:
        counts["failed"] += 1
    elif report.when == "call" and report.passed:
        counts["passed"] += 1


@pytest.hookimpl(trylast=True)
def pytest_unconfigure(config):
    print(f"\n{counts['passed']} passed, {counts['failed']} failed", flush=True)
