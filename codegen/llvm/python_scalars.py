"""Implements Python's arithmetic of ints, floats and bools as one native function with an operation
number.

Ints and floats have 64 bits; bools are ints. The function returns False if Python would raise or
the int result exceeds 64 bits; then Python computes it. Operations that are missing here are
Python's as well.
"""

from __future__ import annotations

from collections.abc import Collection

_OVERFLOW = """  %both{n} = call {{i64, i1}} @llvm.s{op}.with.overflow.i64(i64 %a{n}, i64 %b{n})
  %r{n} = extractvalue {{i64, i1}} %both{n}, 0
  %bad{n} = extractvalue {{i64, i1}} %both{n}, 1
  %ok{n} = xor i1 %bad{n}, true"""
_NEGATED = _OVERFLOW.replace("i64 %a{n}, i64 %b{n}", "i64 0, i64 %a{n}").replace("{op}", "sub")
_BITWISE = "  %r{n} = {op} i64 %a{n}, %b{n}"
_COMPARED = """  %bit{n} = {op} %a{n}, %b{n}
  %r{n} = zext i1 %bit{n} to i64"""
_FLOORED = """  %some{n} = icmp ne i64 %b{n}, 0
  %lowest{n} = icmp eq i64 %a{n}, -9223372036854775808
  %minus{n} = icmp eq i64 %b{n}, -1
  %over{n} = and i1 %lowest{n}, %minus{n}
  %fits{n} = xor i1 %over{n}, true
  %ok{n} = and i1 %some{n}, %fits{n}
  %by{n} = select i1 %ok{n}, i64 %b{n}, i64 1
  %quotient{n} = sdiv i64 %a{n}, %by{n}
  %rest{n} = srem i64 %a{n}, %by{n}
  %left{n} = icmp ne i64 %rest{n}, 0
  %signs{n} = xor i64 %rest{n}, %by{n}
  %differ{n} = icmp slt i64 %signs{n}, 0
  %down{n} = and i1 %left{n}, %differ{n}
"""
_QUOTIENT = _FLOORED + """  %lower{n} = sub i64 %quotient{n}, 1
  %r{n} = select i1 %down{n}, i64 %lower{n}, i64 %quotient{n}"""
_REST = _FLOORED + """  %higher{n} = add i64 %rest{n}, %by{n}
  %r{n} = select i1 %down{n}, i64 %higher{n}, i64 %rest{n}"""
_DIVIDED = """  %r{n} = fdiv double %a{n}, %b{n}
  %ok{n} = fcmp une double %b{n}, 0.0"""
_EXACT = """  %r{n} = sitofp i64 %a{n} to double
  %moved{n} = add i64 %a{n}, 9007199254740992
  %ok{n} = icmp ule i64 %moved{n}, 18014398509481984"""
_ABSOLUTE = """  %minus{n} = icmp slt i64 %a{n}, 0
  %opposite{n} = sub i64 0, %a{n}
  %r{n} = select i1 %minus{n}, i64 %opposite{n}, i64 %a{n}
  %ok{n} = icmp ne i64 %a{n}, -9223372036854775808"""
_LEFT = """  %known{n} = icmp ult i64 %b{n}, 64
  %by{n} = select i1 %known{n}, i64 %b{n}, i64 0
  %r{n} = shl i64 %a{n}, %by{n}
  %back{n} = ashr i64 %r{n}, %by{n}
  %same{n} = icmp eq i64 %back{n}, %a{n}
  %ok{n} = and i1 %known{n}, %same{n}"""
_RIGHT = """  %ok{n} = icmp sge i64 %b{n}, 0
  %little{n} = icmp ult i64 %b{n}, 63
  %by{n} = select i1 %little{n}, i64 %b{n}, i64 63
  %r{n} = ashr i64 %a{n}, %by{n}"""
# As in CPython's float_divmod: the rest has the sign of the divisor.
_FLOAT_REST = """  %ok{n} = fcmp une double %b{n}, 0.0
  %rest{n} = call double @fmod(double %a{n}, double %b{n})
  %some{n} = fcmp une double %rest{n}, 0.0
  %rest.minus{n} = fcmp olt double %rest{n}, 0.0
  %by.minus{n} = fcmp olt double %b{n}, 0.0
  %differ{n} = xor i1 %rest.minus{n}, %by.minus{n}
  %move{n} = and i1 %some{n}, %differ{n}
"""
_FLOAT_MOD = _FLOAT_REST + """  %moved{n} = fadd double %rest{n}, %b{n}
  %none{n} = call double @llvm.copysign.f64(double 0.0, double %b{n})
  %either{n} = select i1 %move{n}, double %moved{n}, double %rest{n}
  %r{n} = select i1 %some{n}, double %either{n}, double %none{n}"""
_FLOAT_FLOORDIV = _FLOAT_REST + """  %whole{n} = fsub double %a{n}, %rest{n}
  %plain{n} = fdiv double %whole{n}, %b{n}
  %lower{n} = fsub double %plain{n}, 1.0
  %quotient{n} = select i1 %move{n}, double %lower{n}, double %plain{n}
  %floor{n} = call double @llvm.floor.f64(double %quotient{n})
  %above{n} = fsub double %quotient{n}, %floor{n}
  %far{n} = fcmp ogt double %above{n}, 0.5
  %next{n} = fadd double %floor{n}, 1.0
  %snapped{n} = select i1 %far{n}, double %next{n}, double %floor{n}
  %exact{n} = fdiv double %a{n}, %b{n}
  %zero{n} = call double @llvm.copysign.f64(double 0.0, double %exact{n})
  %nonzero{n} = fcmp une double %quotient{n}, 0.0
  %r{n} = select i1 %nonzero{n}, double %snapped{n}, double %zero{n}"""
_WHOLE = """  %rounded{n} = call double @llvm.{op}.f64(double %a{n})
  %low{n} = fcmp oge double %rounded{n}, -9223372036854775808.0
  %high{n} = fcmp olt double %rounded{n}, 9223372036854775808.0
  %ok{n} = and i1 %low{n}, %high{n}
  %safe{n} = select i1 %ok{n}, double %rounded{n}, double 0.0
  %r{n} = fptosi double %safe{n} to i64"""
# Where Python raises an error or gives a complex number: 0.0 ** -1.0, (-2.0) ** 0.5, 1e300 ** 2.
_POWER = """  %r{n} = call double @pow(double %a{n}, double %b{n})
  %zero{n} = fcmp oeq double %a{n}, 0.0
  %down{n} = fcmp olt double %b{n}, 0.0
  %pole{n} = and i1 %zero{n}, %down{n}
  %wrong{n} = fcmp uno double %r{n}, %r{n}
  %nan.x{n} = fcmp uno double %a{n}, %b{n}
  %known{n} = xor i1 %nan.x{n}, true
  %complex{n} = and i1 %wrong{n}, %known{n}
  %size{n} = call double @llvm.fabs.f64(double %r{n})
  %endless{n} = fcmp oeq double %size{n}, 0x7FF0000000000000
  %x.size{n} = call double @llvm.fabs.f64(double %a{n})
  %y.size{n} = call double @llvm.fabs.f64(double %b{n})
  %x.finite{n} = fcmp olt double %x.size{n}, 0x7FF0000000000000
  %y.finite{n} = fcmp olt double %y.size{n}, 0x7FF0000000000000
  %finite{n} = and i1 %x.finite{n}, %y.finite{n}
  %over{n} = and i1 %endless{n}, %finite{n}
  %bad0{n} = or i1 %pole{n}, %complex{n}
  %bad1{n} = or i1 %bad0{n}, %over{n}
  %ok{n} = xor i1 %bad1{n}, true"""
# Python raises an error where a finite number has no finite result, and where nan is new.
_OF_LIBM = """  %r{n} = call double @{op}(double %a{n})
  %x.size{n} = call double @llvm.fabs.f64(double %a{n})
  %r.size{n} = call double @llvm.fabs.f64(double %r{n})
  %fine{n} = fcmp olt double %r.size{n}, 0x7FF0000000000000
  %finite{n} = fcmp olt double %x.size{n}, 0x7FF0000000000000
  %nan.r{n} = fcmp uno double %r{n}, %r{n}
  %nan.x{n} = fcmp uno double %a{n}, %a{n}
  %known.x{n} = xor i1 %nan.x{n}, true
  %new{n} = and i1 %nan.r{n}, %known.x{n}
  %raises{n} = or i1 %new{n}, %finite{n}
  %passes{n} = xor i1 %raises{n}, true
  %ok{n} = or i1 %fine{n}, %passes{n}"""
_SIZE_COMPARED = """  %size{n} = call double @llvm.fabs.f64(double %a{n})
  %bit{n} = fcmp {op} double %size{n}, 0x7FF0000000000000
  %r{n} = zext i1 %bit{n} to i64"""
# The functions of `math` that call the function of libm with this name.
LIBM = ("acos", "acosh", "asin", "asinh", "atan", "atanh", "cos", "cosh", "exp", "expm1", "log",
        "log10", "log1p", "log2", "sin", "sinh", "sqrt", "tan", "tanh")
_SIZES = {"isnan": "uno", "isinf": "oeq", "isfinite": "olt"}
_HALF = """  %wide{n} = zext i16 %a{n} to i32
  %size{n} = and i32 %wide{n}, 32767
  %moved{n} = shl i32 %size{n}, 13
  %small{n} = bitcast i32 %moved{n} to float
  %scaled{n} = fmul float %small{n}, 0x46F0000000000000
  %special{n} = icmp uge i32 %size{n}, 31744
  %special.bits{n} = or i32 %moved{n}, 2139095040
  %scaled.bits{n} = bitcast float %scaled{n} to i32
  %bits{n} = select i1 %special{n}, i32 %special.bits{n}, i32 %scaled.bits{n}
  %sign{n} = and i32 %wide{n}, 32768
  %sign.moved{n} = shl i32 %sign{n}, 16
  %signed{n} = or i32 %bits{n}, %sign.moved{n}
  %float{n} = bitcast i32 %signed{n} to float
  %r{n} = fpext float %float{n} to double"""
_BFLOAT = """  %wide{n} = zext i16 %a{n} to i32
  %bits{n} = shl i32 %wide{n}, 16
  %float{n} = bitcast i32 %bits{n} to float
  %r{n} = fpext float %float{n} to double"""
_NATURAL = """  %r{n} = or i64 %a{n}, 0
  %ok{n} = icmp sge i64 %a{n}, 0"""
_NARROWED = """  %r{n} = trunc i64 %a{n} to {kind}
  %wide{n} = {extend} {kind} %r{n} to i64
  %ok{n} = icmp eq i64 %wide{n}, %a{n}"""

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
    *[(f"{op} of float", "double", "double", f"  %r{{n}} = f{op} double %a{{n}}, %b{{n}}")
      for op in ("add", "sub", "mul")],
    ("neg of float", "double", "double", "  %r{n} = fneg double %a{n}"),
    ("truediv of float", "double", "double", _DIVIDED),
    *[(f"{op} of float", "double", "i64", _COMPARED.replace("{op}", f"fcmp {how} double"))
      for op, how in _FLOATS],
    ("float of int", "i64", "double", _EXACT),
    ("rounded of int", "i64", "double", "  %r{n} = sitofp i64 %a{n} to double"),
    ("abs of int", "i64", "i64", _ABSOLUTE),
    ("invert of int", "i64", "i64", "  %r{n} = xor i64 %a{n}, -1"),
    ("lshift of int", "i64", "i64", _LEFT),
    ("rshift of int", "i64", "i64", _RIGHT),
    ("abs of float", "double", "double",
     "  %r{n} = call double @llvm.fabs.f64(double %a{n})"),
    ("mod of float", "double", "double", _FLOAT_MOD),
    ("floordiv of float", "double", "double", _FLOAT_FLOORDIV),
    ("pow of float", "double", "double", _POWER),
    *[(f"{op} of float", "double", "i64", _WHOLE.replace("{op}", how))
      for op, how in (("trunc", "trunc"), ("floor", "floor"), ("ceil", "ceil"),
                      ("round", "roundeven"))],
    *[(f"{op} of float", "double", "double", _OF_LIBM.replace("{op}", op)) for op in LIBM],
    *[(f"{op} of float", "double", "i64", _SIZE_COMPARED.replace("{op}", how))
      for op, how in _SIZES.items()],
    # What an element of an array is to Python.
    ("of bool", "i8", "i64", "  %r{n} = zext i8 %a{n} to i64"),
    *[(f"of int{n}", f"i{n}", "i64", f"  %r{{n}} = sext i{n} %a{{n}} to i64") for n in (8, 16, 32)],
    *[(f"of uint{n}", f"i{n}", "i64", f"  %r{{n}} = zext i{n} %a{{n}} to i64")
      for n in (8, 16, 32)],
    ("of int64", "i64", "i64", "  %r{n} = or i64 %a{n}, 0"),
    ("of uint64", "i64", "i64", _NATURAL),
    ("of float16", "i16", "double", _HALF),
    ("of bfloat16", "i16", "double", _BFLOAT),
    ("of float32", "float", "double", "  %r{n} = fpext float %a{n} to double"),
    ("of float64", "double", "double", "  %r{n} = bitcast double %a{n} to double"),
    # Numbers as scalars of these types.
    *[(f"to {sign}int{n} of int", "i64", f"i{n}",
       _NARROWED.replace("{kind}", f"i{n}").replace("{extend}", "zext" if sign else "sext"))
      for sign in ("", "u") for n in (8, 16, 32)],
    ("to int64 of int", "i64", "i64", "  %r{n} = or i64 %a{n}, 0"),
    ("to uint64 of int", "i64", "i64", _NATURAL),
    ("to bool of bool", "i64", "i8", "  %r{n} = trunc i64 %a{n} to i8"),
    ("to bool of int", "i64", "i8",
     "  %bit{n} = icmp ne i64 %a{n}, 0\n  %r{n} = zext i1 %bit{n} to i8"),
    ("to bool of float", "double", "i8",
     "  %bit{n} = fcmp une double %a{n}, 0.0\n  %r{n} = zext i1 %bit{n} to i8"),
    ("to float32 of float", "double", "float", "  %r{n} = fptrunc double %a{n} to float"),
    ("to float64 of float", "double", "double", "  %r{n} = bitcast double %a{n} to double"),
]
NAMES = [name for name, *_ in _ROWS]


def _case(number: int, takes: str, gives: str, how: str) -> str:
    body = how.replace("{{", "{").replace("}}", "}").replace("{n}", str(number))
    ok = f"%ok{number}" if f"%ok{number} =" in body else "true"
    return f"""op{number}:
  %a{number} = load {takes}, ptr %x
  %b{number} = load {takes}, ptr %y
{body}
  store {gives} %r{number}, ptr %target
  ret i1 {ok}
"""


_DECLARATIONS = [
    *[f"declare {{i64, i1}} @llvm.s{op}.with.overflow.i64(i64, i64)"
      for op in ("add", "sub", "mul")],
    *[f"declare double @llvm.{op}.f64(double)"
      for op in ("fabs", "trunc", "floor", "ceil", "roundeven")],
    *[f"declare double @{name}(double)" for name in LIBM],
    *[f"declare double @{name}(double, double)" for name in ("llvm.copysign.f64", "fmod", "pow")],
]


def numbers_text(operations: Collection[int]) -> str:
    """`@number` as LLVM IR, with these operations. Only some of them need the library `libm`."""
    cases = "".join(_case(i, *_ROWS[i][1:]) for i in operations)
    switch = "\n".join(f"    i64 {i}, label %op{i}" for i in operations)
    declared = "\n".join(line for line in _DECLARATIONS
                         if line.split("@")[1].split("(")[0] in cases)
    return f"""
{declared}
; Computes a number from one or two; whether it could.
define internal i1 @number(i64 %operation, ptr %target, ptr %x, ptr %y) #0 {{
entry:
  switch i64 %operation, label %unknown [
{switch}
  ]
unknown:
  ret i1 0
{cases}}}
"""
