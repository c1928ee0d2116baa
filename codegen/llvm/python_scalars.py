"""Implements Python's arithmetic of ints, floats and bools as one native function with an operation
number.

Ints and floats have 64 bits; bools are ints. The function returns False if Python would raise or
the int result exceeds 64 bits; then Python computes it. Operations that are missing here are
Python's as well.
"""

from __future__ import annotations

_OVERFLOW = """  %both{n} = call {{i64, i1}} @llvm.s{op}.with.overflow.i64(i64 %x{n}, i64 %y{n})
  %r{n} = extractvalue {{i64, i1}} %both{n}, 0
  %bad{n} = extractvalue {{i64, i1}} %both{n}, 1
  %ok{n} = xor i1 %bad{n}, true"""
_NEGATED = _OVERFLOW.replace("i64 %x{n}, i64 %y{n}", "i64 0, i64 %x{n}").replace("{op}", "sub")
_BITWISE = "  %r{n} = {op} i64 %x{n}, %y{n}"
_COMPARED = """  %bit{n} = {op} %x{n}, %y{n}
  %r{n} = zext i1 %bit{n} to i64"""
_FLOORED = """  %some{n} = icmp ne i64 %y{n}, 0
  %lowest{n} = icmp eq i64 %x{n}, -9223372036854775808
  %minus{n} = icmp eq i64 %y{n}, -1
  %over{n} = and i1 %lowest{n}, %minus{n}
  %fits{n} = xor i1 %over{n}, true
  %ok{n} = and i1 %some{n}, %fits{n}
  %by{n} = select i1 %ok{n}, i64 %y{n}, i64 1
  %quotient{n} = sdiv i64 %x{n}, %by{n}
  %rest{n} = srem i64 %x{n}, %by{n}
  %left{n} = icmp ne i64 %rest{n}, 0
  %signs{n} = xor i64 %rest{n}, %by{n}
  %differ{n} = icmp slt i64 %signs{n}, 0
  %down{n} = and i1 %left{n}, %differ{n}
"""
_QUOTIENT = _FLOORED + """  %lower{n} = sub i64 %quotient{n}, 1
  %r{n} = select i1 %down{n}, i64 %lower{n}, i64 %quotient{n}"""
_REST = _FLOORED + """  %higher{n} = add i64 %rest{n}, %by{n}
  %r{n} = select i1 %down{n}, i64 %higher{n}, i64 %rest{n}"""
_DIVIDED = """  %r{n} = fdiv double %x{n}, %y{n}
  %ok{n} = fcmp une double %y{n}, 0.0"""
_EXACT = """  %r{n} = sitofp i64 %x{n} to double
  %moved{n} = add i64 %x{n}, 9007199254740992
  %ok{n} = icmp ule i64 %moved{n}, 18014398509481984"""
_NARROWED = """  %r{n} = trunc i64 %x{n} to {kind}
  %wide{n} = {extend} {kind} %r{n} to i64
  %ok{n} = icmp eq i64 %wide{n}, %x{n}"""

_INTS = [("lt", "slt"), ("le", "sle"), ("gt", "sgt"), ("ge", "sge"), ("eq", "eq"), ("ne", "ne")]
_FLOATS = [("lt", "olt"), ("le", "ole"), ("gt", "ogt"), ("ge", "oge"), ("eq", "oeq"),
           ("ne", "une")]

# A row for each operation: its name, the types of what it takes and gives, how.
_ROWS: list[tuple[str, str, str, str]] = [
    *[(f"{op} of int", "i64", "i64", _OVERFLOW.replace("{op}", op))
      for op in ("add", "sub", "mul")],
    ("neg of int", "i64", "i64", _NEGATED),
    ("floordiv of int", "i64", "i64", _QUOTIENT),
    ("mod of int", "i64", "i64", _REST),
    *[(f"{op} of int", "i64", "i64", _BITWISE.replace("{op}", op)) for op in ("and", "or", "xor")],
    *[(f"{op} of int", "i64", "i64", _COMPARED.replace("{op}", f"icmp {how} i64"))
      for op, how in _INTS],
    *[(f"{op} of float", "double", "double", f"  %r{{n}} = f{op} double %x{{n}}, %y{{n}}")
      for op in ("add", "sub", "mul")],
    ("neg of float", "double", "double", "  %r{n} = fneg double %x{n}"),
    ("truediv of float", "double", "double", _DIVIDED),
    *[(f"{op} of float", "double", "i64", _COMPARED.replace("{op}", f"fcmp {how} double"))
      for op, how in _FLOATS],
    ("float of int", "i64", "double", _EXACT),
    # What an element of an array is to Python.
    ("of bool", "i8", "i64", "  %r{n} = zext i8 %x{n} to i64"),
    *[(f"of int{n}", f"i{n}", "i64", f"  %r{{n}} = sext i{n} %x{{n}} to i64") for n in (8, 16, 32)],
    *[(f"of uint{n}", f"i{n}", "i64", f"  %r{{n}} = zext i{n} %x{{n}} to i64")
      for n in (8, 16, 32)],
    ("of int64", "i64", "i64", "  %r{n} = or i64 %x{n}, 0"),
    ("of float32", "float", "double", "  %r{n} = fpext float %x{n} to double"),
    ("of float64", "double", "double", "  %r{n} = bitcast double %x{n} to double"),
    # Numbers as scalars of these types.
    *[(f"to {sign}int{n} of int", "i64", f"i{n}",
       _NARROWED.replace("{kind}", f"i{n}").replace("{extend}", "zext" if sign else "sext"))
      for sign in ("", "u") for n in (8, 16, 32)],
    ("to int64 of int", "i64", "i64", "  %r{n} = or i64 %x{n}, 0"),
    ("to bool of bool", "i64", "i8", "  %r{n} = trunc i64 %x{n} to i8"),
    ("to float32 of float", "double", "float", "  %r{n} = fptrunc double %x{n} to float"),
    ("to float64 of float", "double", "double", "  %r{n} = bitcast double %x{n} to double"),
]
NAMES = [name for name, *_ in _ROWS]


def _case(number: int, takes: str, gives: str, how: str) -> str:
    body = how.replace("{{", "{").replace("}}", "}").replace("{n}", str(number))
    ok = f"%ok{number}" if f"%ok{number} =" in body else "true"
    return f"""op{number}:
  %x{number} = load {takes}, ptr %x
  %y{number} = load {takes}, ptr %y
{body}
  store {gives} %r{number}, ptr %target
  ret i1 {ok}
"""


_CASES = "".join(_case(i, *row[1:]) for i, row in enumerate(_ROWS))
_SWITCH = "\n".join(f"    i64 {i}, label %op{i}" for i in range(len(_ROWS)))
_DECLARED = "".join(f"declare {{i64, i1}} @llvm.s{op}.with.overflow.i64(i64, i64)\n"
                    for op in ("add", "sub", "mul"))

NUMBERS = f"""
{_DECLARED}
; Computes a number from one or two; whether it could.
define internal i1 @number(i64 %operation, ptr %target, ptr %x, ptr %y) #0 {{
entry:
  switch i64 %operation, label %unknown [
{_SWITCH}
  ]
unknown:
  ret i1 0
{_CASES}}}
"""
