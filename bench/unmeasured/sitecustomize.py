"""A broker that neither counts nor notes: with this folder on PYTHONPATH the statements that do are not compiled.

`bench/run.py --watched` runs such a broker beside one as it is. Left out are additions to counters of topics, traffic
and requests, and entries of the journal; no wake-up is measured. What is compiled this way is not kept in __pycache__.
"""

import ast
import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from types import CodeType, ModuleType

COUNTED = {"counters", "traffic", "api_metrics"}


class _LeaveOut(ast.NodeTransformer):
    def visit_AugAssign(self, node: ast.AugAssign) -> ast.stmt:
        return ast.copy_location(ast.Pass(), node) if COUNTED & _names(node.target) else node

    def visit_Expr(self, node: ast.Expr) -> ast.stmt:
        called = node.value.func if isinstance(node.value, ast.Call) else None
        notes = isinstance(called, ast.Attribute) and called.attr == "note" and _names(called) & {"journal", "_journal"}
        return ast.copy_location(ast.Pass(), node) if notes else node


def _names(node: ast.expr) -> set[str]:
    """Return the names in `self.x.counters.bytes_in` or `x.requests[1]`."""
    found = {one.attr for one in ast.walk(node) if isinstance(one, ast.Attribute)}
    return found | {one.id for one in ast.walk(node) if isinstance(one, ast.Name)}


class _Loader(SourceFileLoader):
    def get_code(self, fullname: str) -> CodeType:
        source = self.get_data(self.path).replace(b"self.next_s = -math.inf", b"self.next_s = math.inf")
        return compile(_LeaveOut().visit(ast.parse(source)), self.path, "exec", dont_inherit=True)


class _Finder:
    @staticmethod
    def find_spec(name: str, path: Sequence[str] | None, target: ModuleType | None = None) -> ModuleSpec | None:
        if not name.startswith("odradek.broker."):
            return None
        spec = PathFinder.find_spec(name, path, target)
        if spec is not None and isinstance(spec.loader, SourceFileLoader):
            spec.loader = _Loader(name, spec.loader.path)
        return spec


sys.meta_path.insert(0, _Finder)  # type: ignore[arg-type]
