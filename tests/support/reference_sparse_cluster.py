"""The sparse cluster once more, slowly: plain Python, one product after the other, one candidate after the other.

Nothing here is shared with the product. Maps and kernels are lists of rows.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

Grid = list[list[int]]
Place = tuple[int, int]


def convolve(x: Grid, kernel: Grid, padding: tuple[int, int, int, int], stride: Place) -> Grid:
    """Every output gathers its products (E1)."""
    rows, columns, kernel_rows, kernel_columns = len(x), len(x[0]), len(kernel), len(kernel[0])
    top, bottom, left, right = padding

    def cell(row: int, column: int) -> int:
        return x[row][column] if 0 <= row < rows and 0 <= column < columns else 0

    return [
        [
            sum(
                kernel[a][b] * cell(r * stride[0] - top + a, c * stride[1] - left + b)
                for a in range(kernel_rows)
                for b in range(kernel_columns)
            )
            for c in range((columns + left + right - kernel_columns) // stride[1] + 1)
        ]
        for r in range((rows + top + bottom - kernel_rows) // stride[0] + 1)
    ]


def full_grid(x: Grid, kernel: Grid) -> Grid:
    rows, columns = len(kernel) - 1, len(kernel[0]) - 1
    return convolve(x, kernel, (rows, rows, columns, columns), (1, 1))


@dataclass
class UnitModel:
    """One unit, product by product: it adds into ``sums`` and counts as the specification's counters do."""

    kernel: Grid
    lanes: int
    variant: str
    cap: int = 1
    tile: Place = (4, 4)
    order: list[Place] | None = None
    zeros: bool = False
    zero_weights: bool = False
    banks: bool = False
    earlier_waits: bool = False
    sums: dict[Place, int] = field(default_factory=dict)
    counts: dict[str, int] = field(default_factory=lambda: dict.fromkeys(COUNTERS, 0))

    def run(self, x: Grid) -> UnitModel:
        places = self.order or [(a, b) for a in range(len(self.kernel)) for b in range(len(self.kernel[0]))]
        weights = [place for place in places if self.zero_weights or self.kernel[place[0]][place[1]]]
        tile = (len(x), len(x[0])) if self.variant == "E" else self.tile
        for row in range(0, len(x), tile[0]):
            for column in range(0, len(x[0]), tile[1]):
                cells = [
                    (r, c, x[r][c])
                    for r in range(row, min(row + tile[0], len(x)))
                    for c in range(column, min(column + tile[1], len(x[0])))
                    if self.zeros or x[r][c]
                ]
                self.counts["tiles"] += 1
                if not cells:
                    self.counts["tiles_skipped"] += 1
                    continue
                self.counts["iterations"] += len(weights)
                self._tile(cells, weights)
        return self

    def _tile(self, cells: list[tuple[int, int, int]], weights: list[Place]) -> None:
        if self.variant == "E":
            for cell in cells:
                for start in range(0, len(weights), self.lanes):
                    self._round([self._product(cell, w) for w in weights[start : start + self.lanes]])
        elif self.variant in "AB":
            for weight in weights:
                for start in range(0, len(cells), self.lanes):
                    self._round([self._product(cell, weight) for cell in cells[start : start + self.lanes]])
        else:
            self._packed([(weight, cell) for weight in weights for cell in cells])

    def _product(self, cell: tuple[int, int, int], weight: Place) -> tuple[Place, int]:
        row, column, value = cell
        word = (row + len(self.kernel) - 1 - weight[0], column + len(self.kernel[0]) - 1 - weight[1])
        return word, value * self.kernel[weight[0]][weight[1]]

    def _round(self, products: list[tuple[Place, int]]) -> None:
        assert len({word for word, _ in products}) == len(products), "lanes of one round never clash"
        rows, columns = len(self.kernel), len(self.kernel[0])
        banks = {(word[0] % rows, word[1] % columns) for word, _ in products}
        assert self.variant != "E" or len(banks) == len(products), "kh x kw banks are enough"
        for word, value in products:
            self.sums[word] = self.sums.get(word, 0) + value
        self.counts["rounds"] += 1
        self.counts["issued"] += len(products)
        self.counts["idle"] += self.lanes - len(products)

    def _packed(self, pairs: list[tuple[Place, tuple[int, int, int]]]) -> None:
        waiting: list[tuple[Place, int]] = []
        while pairs or waiting:
            new: list[tuple[Place, int]] = []
            seen: set[Place] = set()
            while pairs and len(new) + len(waiting) < self.lanes:
                if pairs[0][0] not in seen and len(seen) == self.cap:
                    break
                weight, cell = pairs.pop(0)
                seen.add(weight)
                new.append(self._product(cell, weight))
            waiting = self._leave(waiting + new)
            self.counts["rounds"] += 1
            self.counts["issued"] += len(new)
            self.counts["fifo_peak"] = max(self.counts["fifo_peak"], len(waiting))

    def _leave(self, products: list[tuple[Place, int]]) -> list[tuple[Place, int]]:
        """Add what may leave; returns the products that wait, in their order."""
        self.counts["idle"] += self.lanes - len(products)
        owner: dict[Place, Place] = {}
        left: dict[Place, int] = {}
        waits = []
        numbered = list(enumerate(products))
        for number, (word, value) in reversed(numbered) if self.earlier_waits else numbered:
            bank = (word[0] % self.tile[0], word[1] % self.tile[1]) if self.banks else word
            merges = self.variant == "D" and left.get(word) == 1
            if bank not in owner or (owner[bank] == word and merges):
                self.counts["merged"] += bank in owner
                self.counts["conflicts"] += bank in owner and not self.banks
                owner[bank] = word
                left[word] = left.get(word, 0) + 1
                self.sums[word] = self.sums.get(word, 0) + value
            else:
                self.counts["conflicts"] += 1
                waits.append(number)
        return [product for number, product in numbered if number in waits]


COUNTERS = ("rounds", "iterations", "issued", "idle", "conflicts", "merged", "fifo_peak", "tiles", "tiles_skipped")


def balance(
    load: Callable[[int, int, int, int], int],
    rows: list[int],
    columns: list[list[int]],
    met: Callable[[list[int]], bool],
    max_moves: int,
    fits: Callable[[int, int, int, int], bool] = lambda *_: True,
) -> int:
    """The exchange, one candidate and one line after the other; limits change in place. Returns the moves made."""

    def pieces() -> list[tuple[int, int, int, int]]:
        return [
            (rows[band], limits[j], rows[band + 1], limits[j + 1])
            for band, limits in enumerate(columns)
            for j in range(len(limits) - 1)
        ]

    def potential() -> int:
        return sum(load(*piece) ** 2 for piece in pieces())

    candidates = [(limits, j, d) for limits in columns for j in range(1, len(limits) - 1) for d in (-1, 1)]
    candidates += [(rows, j, d) for j in range(1, len(rows) - 1) for d in (-1, 1)]
    moves = 0
    while moves < max_moves and not met([load(*piece) for piece in pieces()]):
        now = potential()
        best = None
        for limits, j, direction in candidates:
            kept = limits[j]
            while limits[j - 1] < limits[j] + direction < limits[j + 1]:
                limits[j] += direction
                if not all(fits(*piece) for piece in pieces()):
                    break
                changed = potential()
                if changed != now:
                    if changed < (best[0] if best else now):
                        best = (changed, limits, j, limits[j])
                    break
            limits[j] = kept
        if best is None:
            break
        best[1][best[2]] = best[3]
        moves += 1
    return moves
