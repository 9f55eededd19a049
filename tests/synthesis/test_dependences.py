"""Dependences: who waits for whom across iterations, and which accesses can never meet."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from loop_bodies import BodyBuilder, histogram

from bfpga.synthesis.addresses import Addresses
from bfpga.synthesis.body import Opcode, Waiver
from bfpga.synthesis.dependences import Dependences, find_dependences
from bfpga.synthesis.ports import port_limits


def memory_edges(found: Dependences) -> dict[tuple[int, int, int], str]:
    """(source, target, distance) of the edges through memories, and what they are called."""
    return {(e.source, e.target, e.distance): e.hazard for e in found.edges if e.kind == "memory"}


def distance_of(offset: int, step: int = 1, words: int = 256) -> int | None:
    """Iterations between a write to ``i`` and the read of ``i + offset`` where i grows by ``step``."""
    b = BodyBuilder()
    i = b.counter(8, step)
    memory = b.memory(words, 32)
    read = b.read(memory, b.add(Opcode.ADD, 8, i, b.constant(offset, 8)))
    return Addresses(b.body).distance(b.write(memory, i, read), read, least=1)


def test_a_neighbour_is_written_one_iteration_before_it_is_read() -> None:
    assert distance_of(-1) == 1
    assert distance_of(-3) == 3


def test_a_word_that_was_passed_comes_again_when_the_counter_has_gone_around() -> None:
    assert distance_of(0) == 256
    assert distance_of(1) == 255


def test_an_even_step_never_meets_an_odd_offset() -> None:
    assert distance_of(-1, step=2) is None
    assert distance_of(-4, step=2) == 2


@given(st.integers(-7, 7).filter(bool), st.integers(0, 31), st.integers(0, 31), st.integers(1, 5), st.integers(1, 3))
def test_distances_are_those_that_counting_finds(step: int, one: int, other: int, factor: int, least: int) -> None:
    b = BodyBuilder()
    i = b.counter(5, step)
    scaled = b.add(Opcode.MUL, 5, i, b.constant(factor, 5))
    memory = b.memory(32, 8)
    first = b.read(memory, b.add(Opcode.ADD, 5, scaled, b.constant(one, 5)))
    second = b.read(memory, b.add(Opcode.ADD, 5, scaled, b.constant(other, 5)))
    counted = next((d for d in range(least, 100) if (factor * step * d + other - one) % 32 == 0), None)
    assert Addresses(b.body).distance(first, second, least) == counted


@given(st.integers(1, 7), st.integers(1, 15), st.integers(0, 7), st.booleans(), st.integers(1, 3))
def test_distances_of_addresses_put_together_from_bits(low: int, step: int, plus: int, ring: bool, least: int) -> None:
    """Low bits of a counter beside a constant (a ring), or beside its high bits plus a constant (a sum)."""
    b = BodyBuilder()
    i = b.counter(8, step)
    below = b.add(Opcode.SLICE, low, i, value=0)
    high = b.add(Opcode.SLICE, 8 - low, i, value=low)
    beside = b.constant(plus, 8 - low)
    is_highest = plus == 1 << 7 - low
    above = beside if ring else b.add(Opcode.XOR if is_highest else Opcode.ADD, 8 - low, high, beside)
    memory = b.memory(256, 8)
    plain = b.read(memory, b.add(Opcode.CONCAT, 8, below, beside) if ring else i)
    joined = b.read(memory, b.add(Opcode.CONCAT, 8, below, above))

    def address(iteration: int, shifted: bool) -> int:
        value = iteration * step % 256
        if ring:
            return value % (1 << low) + (plus << low) % 256
        return (value + (plus << low if shifted else 0)) % 256

    counted = next((d for d in range(least, 600) if address(d, True) == address(0, False)), None)
    assert Addresses(b.body).distance(plain, joined, least) == counted


def test_a_counter_that_starts_again_meets_itself_after_its_period() -> None:
    b = BodyBuilder()
    i = b.state(8, "i")
    last = b.add(Opcode.EQ, 1, i, b.constant(19, 8))
    grown = b.add(Opcode.ADD, 8, i, b.constant(1, 8))
    b.follow(i, b.add(Opcode.SELECT, 8, last, b.constant(0, 8), grown))
    memory = b.memory(256, 32)
    read = b.read(memory, i)
    assert Addresses(b.body).distance(b.write(memory, i, read), read, least=1) == 20


def test_a_counter_with_uneven_steps_never_comes_back_but_one_that_may_wait_does() -> None:
    for smallest, expected in ((1, None), (0, 1)):
        b = BodyBuilder()
        at = b.state(12, "at")
        step = b.add(Opcode.SELECT, 12, b.invariant(1, "jump"), b.constant(3, 12), b.constant(smallest, 12))
        b.follow(at, b.add(Opcode.ADD, 12, at, step))
        memory = b.memory(4096, 32)
        read = b.read(memory, at)
        assert Addresses(b.body).distance(b.write(memory, at, read), read, least=1) == expected


def test_different_constants_of_one_place_never_meet_in_an_iteration() -> None:
    b = BodyBuilder()
    base = b.receive(b.stream(8))
    memory = b.memory(256, 32)
    write = b.write(memory, base, b.constant(0, 32))
    beside = b.read(memory, b.add(Opcode.ADD, 8, base, b.constant(1, 8)))
    same = b.read(memory, base)
    edges = memory_edges(find_dependences(b.body))
    assert (write, beside, 0) not in edges
    assert edges[write, same, 0] == "RAW"
    assert edges[write, beside, 1] == "RAW"


def test_unknown_places_meet_in_every_iteration_until_a_waiver_says_no() -> None:
    body, read, _, write = histogram()
    assert memory_edges(find_dependences(body)) == {
        (read, write, 0): "WAR", (write, read, 1): "RAW", (read, write, 1): "WAR", (write, write, 1): "WAW",
    }  # fmt: skip
    body, read, _, write = histogram(Waiver("inter", "RAW"))
    assert (write, read, 1) not in memory_edges(find_dependences(body))
    body, read, _, write = histogram(Waiver("inter", ""), Waiver("intra", "WAR"))
    assert memory_edges(find_dependences(body)) == {}


def test_an_intra_waiver_keeps_the_following_iterations_in_order() -> None:
    b = BodyBuilder()
    memory = b.memory(256, 32, Waiver("intra", "RAW"))
    write = b.write(memory, b.receive(b.stream(8)), b.constant(1, 32))
    read = b.read(memory, b.receive(b.stream(8)))
    edges = memory_edges(find_dependences(b.body))
    assert (write, read, 0) not in edges
    assert edges[write, read, 1] == "RAW"


@pytest.mark.parametrize("forwards", [False, True])
def test_a_forwarded_word_takes_the_place_of_a_waiting_read(forwards: bool) -> None:
    body, read, new, write = histogram()
    found = find_dependences(body, forwards)
    assert ((write, read, 2 if forwards else 1)) in memory_edges(found)
    assert any(e.kind == "forward" and (e.source, e.target) == (new, new) for e in found.edges) == forwards


def test_conditions_that_exclude_each_other() -> None:
    b = BodyBuilder()
    x, y = b.invariant(1, "x"), b.invariant(1, "y")
    kind = b.receive(b.stream(2))
    both = b.add(Opcode.AND, 1, x, y)
    neither = b.invert(b.add(Opcode.OR, 1, x, y))
    one, two = (b.add(Opcode.EQ, 1, kind, b.constant(word, 2)) for word in (1, 2))
    chosen = b.add(Opcode.SELECT, 1, x, one, y)
    exclusive = Dependences(b.body).predicates.exclusive
    assert exclusive(x, b.invert(x))
    assert exclusive(both, neither)
    assert exclusive(one, two)
    assert exclusive(chosen, b.add(Opcode.AND, 1, x, two))
    assert not exclusive(x, y)
    assert not exclusive(both, x)
    assert not exclusive(one, b.invert(two))


def test_accesses_that_exclude_each_other_share_a_port() -> None:
    for shared, expected in ((True, 1), (False, 2)):
        b = BodyBuilder()
        condition = b.invariant(1, "condition")
        memory = b.memory(256, 32, ports="ram_1p")
        b.read(memory, b.counter(8), condition)
        b.read(memory, b.counter(8), b.invert(condition) if shared else condition)
        assert [limit.interval for limit in port_limits(find_dependences(b.body))] == [expected]


@pytest.mark.parametrize(
    ("ports", "reads", "writes", "interval"),
    [("auto", 3, 0, 2), ("auto", 1, 1, 1), ("ram_s2p", 2, 1, 2), ("ram_t2p", 2, 2, 2), ("ram_1p", 1, 1, 2),
     ("ram_2p", 1, 2, 2), ("ram_1wnr", 5, 1, 1)],
)  # fmt: skip
def test_ports_of_a_binding_limit_the_interval(ports: str, reads: int, writes: int, interval: int) -> None:
    b = BodyBuilder()
    memory = b.memory(256, 32, ports=ports, name="table")
    for _ in range(reads):
        b.read(memory, b.counter(8))
    for _ in range(writes):
        b.write(memory, b.counter(8), b.constant(0, 32))
    limits = port_limits(find_dependences(b.body))
    assert max(limit.interval for limit in limits) == interval
    assert {limit.subject for limit in limits} == {"table"}


def test_beats_of_a_stream_keep_their_order() -> None:
    b = BodyBuilder()
    stream = b.stream(16)
    first, second = b.receive(stream), b.receive(stream)
    edges = {(e.source, e.target, e.distance): e.clocks for e in find_dependences(b.body).edges if e.kind == "stream"}
    assert edges[first, second, 0] == 1
    assert edges[second, first, 1] == 1


@pytest.mark.parametrize("written", [False, True])
def test_reads_of_one_word_share_a_port_unless_it_is_written_between_them(written: bool) -> None:
    b = BodyBuilder()
    memory = b.memory(256, 32, ports="ram_s2p")
    at = b.counter(8)
    first = b.read(memory, at, b.invariant(1, "one"))
    if written:
        b.write(memory, at, first)
    second = b.read(memory, at, b.invariant(1, "other"))
    elsewhere = b.read(memory, b.invariant(8, "place"), b.invariant(1, "third"))
    found = find_dependences(b.body)
    assert found.may_share(first, second) == found.may_share(second, first) == (not written)
    assert not found.may_share(second, elsewhere)
    reads = next(limit for limit in port_limits(found) if limit.cycle[0] == first)
    assert reads.interval == (3 if written else 2)
