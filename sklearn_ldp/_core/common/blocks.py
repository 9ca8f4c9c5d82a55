"""Lists of blocks of elements. Small blocks are merged, so that appending is cheap."""

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
    """Append a block to a list of blocks, after merging it with small blocks at the end.

    The new block is merged with the last block until the last block is at least twice as large.
    Then each block is at most half as large as the block before. So n elements are in at most
    log2(n) + 1 blocks.

    Parameters
    ----------
    blocks : list
        The blocks, the largest first. The list is modified.
    block : object
        The block to append.
    merge : callable
        Function that receives an earlier and a later block, and returns a block with all elements.
    size : callable
        Function that returns the number of elements of a block.
    """
    # Ends: because each pass removes a block.
    while blocks and size(blocks[-1]) < 2 * size(block):
        block = merge(blocks.pop(), block)
    blocks.append(block)
