"""Cores that two servers of one machine were given."""

from rpc_server.machine.core_claims import claimed

A, B, C = 100_001, 100_002, 100_003  # no machine has them


def test_cores_that_two_have_are_told() -> None:
    with claimed((A, B)) as first:
        assert first == ()
        with claimed((B, C)) as second:
            assert second == (B,)
    with claimed((A, B, C)) as later:
        assert later == ()
