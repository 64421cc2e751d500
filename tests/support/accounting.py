# SPDX-License-Identifier: Apache-2.0
"""Counts again from scratch what the shim and the server say that they hold."""

from collections import Counter

from history_delta_server.history import ITEM_OVERHEAD, NODE_OVERHEAD, ROLLOUT_OVERHEAD, HistoryStore, RolloutHistories
from history_delta_shim.core import Core


def rollout_bytes(rollout: RolloutHistories) -> int:
    nodes = sum(len(node.data) + NODE_OVERHEAD for node in rollout._nodes.values())
    return ROLLOUT_OVERHEAD + nodes + sum(len(item) + ITEM_OVERHEAD for item in rollout._items.values())


def check_server(store: HistoryStore) -> None:
    """Every number of the store is what a recount gives, and every link between messages holds."""
    shared: Counter[bytes] = Counter()
    for rollout in store._rollouts.values():
        assert rollout.held_bytes == rollout_bytes(rollout)
        assert rollout._item_bytes == sum(len(item) + ITEM_OVERHEAD for item in rollout._items.values())
        _check_nodes(rollout)
        shared.update(node.data for node in rollout._nodes.values() if len(node.data) >= 512)
        shared.update(item for item in rollout._items.values() if len(item) >= 512)
    assert store.tally.bytes == sum(rollout.held_bytes for rollout in store._rollouts.values())
    assert store.tally.messages == sum(len(rollout._nodes) for rollout in store._rollouts.values())
    assert store._interner._copies.keys() == shared.keys()
    assert store._interner._more == {data: count - 1 for data, count in shared.items() if count > 1}
    assert store._used.keys() == store._rollouts.keys()


def _check_nodes(rollout: RolloutHistories) -> None:
    children: Counter[bytes] = Counter()
    for chain, node in rollout._nodes.items():
        assert node.chain == chain
        assert node.count == (node.parent.count + 1 if node.parent else 1)
        if node.parent is not None:
            assert rollout._nodes[node.parent.chain] is node.parent
            children[node.parent.chain] += 1
    for chain, node in rollout._nodes.items():
        assert node.children == children[chain]
        # Nothing stays that no history runs through.
        assert node.children or chain in rollout._tips
    assert all(rollout._nodes[chain] is node for chain, node in rollout._tips.items())
    assert not rollout._pins


def check_forgets_all(store: HistoryStore) -> None:
    """Once everything is idle for long enough, nothing is held or counted."""
    store._clock = lambda: float("inf")
    store.expire()
    assert (len(store), store.tally.bytes, store.tally.messages, len(store._interner)) == (0, 0, 0, 0)


def check_shim(core: Core) -> None:
    held = core._conversations
    assert held.bytes == sum(conversation.size for conversation in held._held.values()) <= held._max_bytes
    assert len(held) <= held._max_count
    for items in (core._heads, core._tails):
        assert items.bytes == sum(len(item) for item in items._items.values()) <= items._max_bytes
        assert len(items._items) <= items._max_count
