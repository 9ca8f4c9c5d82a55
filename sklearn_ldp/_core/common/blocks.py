"""Lists of blocks that grow at little cost, because small blocks are merged."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

Block = TypeVar("Block")


def append_merged(
    blocks: list[Block],
    block: Block,
    merge: Callable[[Block, Block], Block],
    size: Callable[[Block], int],
) -> None:
    """Append a block, after it was merged with the last blocks that are not twice as large.

    Then each block is at most half as large as the previous block, so n elements have at most
    log2(n) + 1 blocks.

    Parameters
    ----------
    blocks : list
        The blocks, the largest first. The list is modified.
    block : object
        The block to append.
    merge : callable
        Returns the block of all elements of an earlier and a later block.
    size : callable
        Returns the number of elements of a block.
    """
    # Ends: because each pass removes a block.
    while blocks and size(blocks[-1]) < 2 * size(block):
        block = merge(blocks.pop(), block)
    blocks.append(block)
