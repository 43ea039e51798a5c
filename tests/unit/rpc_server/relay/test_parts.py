"""Parts of a relay: passes, addresses, the joining of connections, the loop and the splice."""

import contextlib
import os
import random
import socket
import threading
import time

import pytest

from rpc_server.errors import ConnectError, ProtocolError
from rpc_server.farm_link.registrar import split_address
from rpc_server.relay import passes
from rpc_server.relay.pass_table import RelayPassTable
from rpc_server.relay.server import RelayOptions
from rpc_server.relay.splice import CHUNK, Splicer, tune
from rpc_server.wire.event_loop import WRITE, EventLoop
from rpc_server.wire.relay_messages import SILENCE_S, BoxPasses, to_relay
from tests.kit.ports import free_port

# --- passes and first words ----------------------------------------------------------------------------------


def test_a_pass_is_the_same_wherever_it_is_made_and_tells_nothing_of_the_token():
    given = passes.pass_of_token("7-secret")
    assert given == passes.pass_of_token("7-secret") == passes.pass_of_text(given.text)
    assert given != passes.pass_of_token("8-secret")
    assert "secret" not in given.text
    assert given.secret.hex() not in repr(given)


@pytest.mark.parametrize("text", ["", "ab", "xy" * 32, "ab" * 33])
def test_what_is_no_pass(text):
    with pytest.raises(ProtocolError, match="not a pass"):
        passes.pass_of_text(text)


def test_a_proof_is_good_for_its_role_and_number_only():
    given, greeting = passes.new_pass(), passes.Greeting.new(4)
    said = passes.PassAnswer.from_bytes(passes.PassAnswer.to(greeting, passes.CLIENT, given))
    assert (said.role, said.id) == (passes.CLIENT, given.id)
    assert given.proves(passes.CLIENT, greeting.nonce, said.proof)
    assert not given.proves(passes.BOX, greeting.nonce, said.proof)
    assert not given.proves(passes.CLIENT, passes.Greeting.new(4).nonce, said.proof)
    assert not passes.new_pass().proves(passes.CLIENT, greeting.nonce, said.proof)
    assert given.secret not in passes.PassAnswer.to(greeting, passes.CLIENT, given)


def test_greetings():
    greeting = passes.Greeting.new(9291)
    data = greeting.to_bytes()
    assert passes.Greeting.from_bytes(data) == greeting
    with pytest.raises(ProtocolError, match="no tunefarm relay"):
        passes.Greeting.from_bytes(b"HTTP" + data[4:])
    with pytest.raises(ProtocolError, match="version 9"):
        passes.Greeting.from_bytes(data[:4] + b"\x09" + data[5:])


def test_answers_and_verdicts_that_are_none():
    good = passes.PassAnswer.to(passes.Greeting.new(1), passes.BOX, passes.new_pass())
    for bad in (b"XXXX" + good[4:], good[:4] + b"?" + good[5:]):
        with pytest.raises(ProtocolError):
            passes.PassAnswer.from_bytes(bad)
    assert passes.read_verdict(passes.verdict_bytes(passes.PassVerdict.WELCOME, 9300)) == (
        passes.PassVerdict.WELCOME,
        9300,
    )
    with pytest.raises(ProtocolError, match="77"):
        passes.read_verdict(b"\x4d\0\0")


def test_a_box_names_passes_and_nothing_else():
    with pytest.raises(ProtocolError):
        to_relay.decode_body(to_relay.encode(BoxPasses("box", ("../../etc",)))[1])
    with pytest.raises(ProtocolError):
        to_relay.decode_body(to_relay.encode(BoxPasses("box", (passes.new_pass().text,) * 257))[1])


# --- addresses -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("relay", [("relay.lab", 9290), ("10.0.0.1", 1), ("fe80::1", 9290)])
def test_a_grants_address_leads_through_the_relay(relay):
    registered = passes.via("nat-9091", relay)
    host, port = split_address(registered)
    assert passes.split_via(host) == ("nat-9091", relay[0])
    granted = passes.granted_address(registered, "1-token")
    host, port = split_address(granted)
    assert (passes.split_via(host), port) == ((passes.pass_of_token("1-token").text, relay[0]), relay[1])
    assert passes.shown_address(host, port) == f"relay {relay[0]}:{relay[1]}"


def test_other_addresses_are_left_alone():
    assert passes.granted_address("box1:9091", "1-token") == "box1:9091"
    assert passes.split_via("box1") == ("", "box1")
    assert passes.shown_address("box1", 9091) == "box1:9091"
    with pytest.raises(ConnectError):
        passes.granted_address("nat@relay", "1-token")


def test_ports_follow_the_relays_own():
    assert RelayOptions(port=9290).ports == (9291, 9354)
    assert RelayOptions(port=0).ports == (0, 0)
    assert RelayOptions(port=9290, first=100, last=200).ports == (100, 200)
    assert RelayOptions(port=65530).ports == (65531, 65535)


# --- the desk ------------------------------------------------------------------------------------------------

ONE, TWO = passes.new_pass(), passes.new_pass()


def box_of(table, given):
    found = table.find(given.id)
    return None if found is None else found[0].route


def test_passes_come_and_go_with_what_the_box_says():
    table = RelayPassTable()
    changes = table.heard(b"a", "key", "box", [ONE], 0.0)
    assert (changes.new, changes.gone) == ({ONE.id}, set())
    changes = table.heard(b"a", "key", "box", [ONE], 1.0)
    assert (changes.new, changes.gone) == (set(), set())
    changes = table.heard(b"a", "key", "box", [TWO], 2.0)
    assert (changes.new, changes.gone) == ({TWO.id}, {ONE.id})
    assert box_of(table, ONE) is None
    assert box_of(table, TWO) == b"a"


def test_a_pass_belongs_to_the_key_that_told_of_it_first():
    table = RelayPassTable()
    table.heard(b"a", "key", "box", [ONE], 0.0)
    for thief in ("another", "key"):
        table.heard(b"b", thief, "thief", [ONE], 1.0)
        assert box_of(table, ONE) == b"a"
    table.heard(b"b", "another", "thief", [], 2.0)
    assert box_of(table, ONE) == b"a"


def test_a_box_that_connects_anew_takes_its_passes_along():
    table = RelayPassTable()
    table.heard(b"a", "key", "box", [ONE], 0.0)
    assert table.heard(b"b", "key", "box", [ONE], 1.0).new == set()
    assert box_of(table, ONE) == b"b"
    assert table.forget(b"a") == []
    assert box_of(table, ONE) == b"b"
    assert table.forget(b"b") == [ONE.id]
    assert box_of(table, ONE) is None
    assert len(table) == 0


def test_silent_boxes_are_forgotten():
    table = RelayPassTable()
    table.heard(b"a", "", "one", [ONE], 0.0)
    table.heard(b"b", "", "two", [TWO], 1.0)
    table.heard(b"a", "", "one", [ONE], 2.0)
    assert [box.name for box in table.expire(1.0 + SILENCE_S + 0.1)] == ["two"]
    assert box_of(table, TWO) is None
    assert [box.name for box in table.expire(100.0)] == ["one"]
    assert len(table) == 0
    assert table.heard(b"a", "", "one", [ONE], 101.0).new == {ONE.id}


# --- the loop ------------------------------------------------------------------------------------------------


def test_timers_run_in_their_order_and_not_when_cancelled():
    loop, seen = EventLoop(), []
    loop.after(0.03, lambda: loop.stop("done"))
    loop.after(0.02, lambda: seen.append(2))
    loop.after(0.01, lambda: seen.append(1))
    loop.after(0.015, lambda: seen.append("cancelled")).cancel()
    loop.run()
    loop.close()
    assert seen == [1, 2]


def test_a_defect_in_a_handler_does_not_end_the_loop(caplog):
    loop = EventLoop()
    loop.after(0.0, lambda: 1 // 0)
    loop.after(0.01, lambda: loop.stop("done"))
    loop.run()
    loop.close()
    assert "ZeroDivisionError" in caplog.text


def test_an_event_of_a_closed_descriptor_is_not_given_to_the_next_of_that_number():
    loop, seen = EventLoop(), []
    pairs = [os.pipe() for _ in range(2)]
    numbers = {read for read, _ in pairs}

    def on_first(fd):
        """Close the other one, whose event waits as well, and open another with its number."""
        other = next(iter(numbers - {fd}))
        loop.unwatch(other)
        os.close(other)
        again = os.open("/dev/null", os.O_RDONLY)
        assert again == other
        loop._handlers[again] = lambda _: seen.append("the new one")
        loop.unwatch(fd)

    for read, write in pairs:
        os.write(write, b"x")
        loop.watch(read, lambda _, fd=read: on_first(fd))
    loop.after(0.05, lambda: loop.stop("done"))
    loop.run()
    loop._handlers.clear()
    loop.close()
    assert seen == []
    for read, write in pairs:
        os.close(read)
        os.close(write)


# --- the splice ----------------------------------------------------------------------------------------------


def tcp_pair():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        near = socket.create_connection(listener.getsockname())
        far, _ = listener.accept()
    return near, far


@pytest.fixture
def spliced():
    """(one end, other end, the splice, its loop's end): what comes in at one goes out at the other."""
    one, inner_one = tcp_pair()
    other, inner_other = tcp_pair()
    for sock in (one, other, inner_one, inner_other):
        for option in (socket.SO_SNDBUF, socket.SO_RCVBUF):
            sock.setsockopt(socket.SOL_SOCKET, option, 1 << 14)  # so that much gets stuck on its way
        sock.settimeout(60)
    loop = EventLoop()
    splice = Splicer(loop).join(tune(inner_one), tune(inner_other), lambda: loop.stop("ended"))
    thread = threading.Thread(target=loop.run, daemon=True)
    thread.start()
    yield one, other, splice, thread
    loop.stop("over")
    thread.join(60)
    one.close()
    other.close()
    loop.close()


def pour(sock, data, rng):
    at = 0
    while at < len(data):
        size = rng.choice((1, 100, 5000, 1 << 16, 1 << 20))
        sock.sendall(data[at : at + size])
        at += size


def drink(sock, size, rng):
    found = bytearray()
    while len(found) < size:
        part = sock.recv(rng.choice((1, 50, 4000, 1 << 16, 1 << 20)))
        assert part
        found += part
    return bytes(found)


@pytest.mark.parametrize("seed", range(5))
def test_bytes_arrive_as_they_were_sent_both_ways_at_once(spliced, seed):
    one, other, _, _ = spliced
    rng = random.Random(seed)
    size = 3 << 20
    there, back = rng.randbytes(size), rng.randbytes(size)
    threads = [
        threading.Thread(target=pour, args=(one, there, random.Random(seed + 10))),
        threading.Thread(target=pour, args=(other, back, random.Random(seed + 20))),
    ]
    got = {}
    threads.append(threading.Thread(target=lambda: got.update(back=drink(one, size, random.Random(seed + 30)))))
    for thread in threads:
        thread.start()
    assert drink(other, size, rng) == there
    for thread in threads:
        thread.join()
    assert got["back"] == back


def test_no_more_than_a_chunk_is_kept_of_what_nobody_reads(spliced):
    one, _, splice, _ = spliced
    one.settimeout(0.5)
    sent = 0
    with contextlib.suppress(TimeoutError):
        while sent < 1 << 30:
            sent += one.send(bytes(1 << 16))
    assert sent < 1 << 30
    deadline = time.monotonic() + 60
    while not splice.held:  # whoever reads has had no core so far
        assert time.monotonic() < deadline
        time.sleep(0.01)
    assert splice.held <= CHUNK


def test_what_was_read_is_passed_on_after_its_sender_has_closed(spliced):
    one, other, _, thread = spliced
    data = random.Random(1).randbytes(200_000)
    threading.Thread(target=lambda: (one.sendall(data), one.close())).start()
    assert drink(other, len(data), random.Random(2)) == data
    assert other.recv(1) == b""
    thread.join(60)
    assert not thread.is_alive(), "the splice has not ended"


def test_a_reader_that_is_gone_ends_it(spliced):
    one, other, _, thread = spliced
    other.close()
    with contextlib.suppress(OSError):
        while True:
            one.sendall(bytes(1 << 16))
    thread.join(60)
    assert not thread.is_alive()


def test_a_socket_that_is_still_connecting_is_waited_for():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        one, inner = tcp_pair()
        late = tune(socket.socket())
        late.connect_ex(listener.getsockname())
        loop = EventLoop()
        Splicer(loop).join(tune(inner), late, lambda: loop.stop("ended"))
        one.sendall(b"early")
        thread = threading.Thread(target=loop.run, daemon=True)
        thread.start()
        far, _ = listener.accept()
        assert far.recv(100) == b"early"
        far.close()
        assert one.recv(100) == b""
        thread.join(60)
        loop.close()
        one.close()


def test_a_socket_that_cannot_connect_ends_it():
    one, inner = tcp_pair()
    late = tune(socket.socket())
    late.connect_ex(("127.0.0.1", free_port()))
    loop = EventLoop()
    Splicer(loop).join(tune(inner), late, lambda: loop.stop("ended"))
    loop.run()
    loop.close()
    assert one.recv(1) == b""
    one.close()


def test_descriptors_can_be_watched_for_writing():
    loop, (near, far) = EventLoop(), tcp_pair()
    loop.watch(near.fileno(), lambda events: loop.stop(str(events)), WRITE)
    loop.run()
    assert loop.stop_reason == str(int(WRITE))
    loop.unwatch(near.fileno())
    loop.unwatch(near.fileno())
    loop.close()
    near.close()
    far.close()
