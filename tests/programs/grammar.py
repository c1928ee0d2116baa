"""What random programs are made of: expressions and statements as texts with holes.

A hole `{vector}` is filled with an expression of that kind, `{var:vector}` with a variable,
`{set:vector}` with one that may be assigned, `{in:vector}` with one that may be changed, `{block}`
and `{loop}` with statements (in a loop also `break` and `continue`), `{my:i}` with a name of this
statement alone, which others may read where its kind stands in `names`. Every loop ends after few
turns whatever the values are, and what is compared are numbers of four odd digits, so that no
decision is near to rounding.

Kinds: `batch` (n, 3), `vector` (3,) and `scalar` () are tensors, `list` is one of vectors; `float`,
`int` and `test` are Python's.
"""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True)
class Form:
    """A statement with holes; `names` are the kinds of the names it makes."""

    text: str
    names: dict[str, str] = field(default_factory=dict)


KINDS = ("batch", "vector", "scalar", "list", "float", "int", "test")

# ---- expressions, by feature and kind
EXPRESSIONS: dict[str, dict[str, list[str]]] = {
    "core": {
        "batch": ["({batch} + {batch})", "({batch} - {vector})", "fw.tanh({batch})",
                  "({batch} @ W)",
                  "fw.softmax({batch}, -1)", "fw.tanh({batch} * {batch})", "{batch}.flip(0)",
                  "fw.where({batch} > {literal}, {batch}, {vector})", "({batch} * {number})"],
        "vector": ["({vector} + {vector})", "({vector} - {scalar})", "fw.sin({vector})",
                   "{batch}.sum(0)", "{batch}.mean(0)", "fw.tanh({vector} * {vector})",
                   "({vector} @ W)", "W[{row}]", "{vector}.flip(0)", "fw.relu({vector})",
                   "fw.stack([{scalar}, {scalar}, {scalar}])", "fw.maximum({vector}, {vector})",
                   "({vector} * {float})", "fw.concat([{vector}[:1], {vector}[1:]])",
                   "fw.expand_dims({vector}, 0).reshape(3)"],
        "scalar": ["{vector}.sum()", "{vector}.mean()", "{vector}.max()", "{vector}[{row}]",
                   "({scalar} + {scalar})", "({scalar} * {number})", "fw.cos({scalar})",
                   "(({vector} @ {vector}) / 9)", "fw.sigmoid({scalar})", "({scalar} - {float})"],
        "float": ["{number}", "k", "({float} + {float})", "({float} * {number})"],
        "int": ["{few}", "n", "({int} + 1)"],
        "test": ["{scalar} > {literal}", "{scalar} < {literal}", "{int} > {few}"],
    },
    "logic": {
        "test": ["({vector} > {literal}).any()", "(not {test})", "({test} and {test})",
                 "({test} or {test})", "{float} > {literal}", "{int} % 2 == 0",
                 "-2.3171 < {scalar} < 1.9317"],
        "float": ["({float} if {test} else {float})"],
        "vector": ["({vector} if {test} else {vector})"],
        "scalar": ["({test} and {scalar} or {scalar})"],
    },
    "item": {
        "float": ["{scalar}.item()", "{vector}[{row}].item()", "abs({scalar}.item())",
                  "max({scalar}.item(), {float})", "math.sqrt(abs({float}) + 1.5)",
                  "round({scalar}.item() * 4.2173)"],
        "int": ["int(abs({scalar}.item()) * 1.7313) % 4"],
        "test": ["{scalar}.item() > {literal}"],
    },
    "leak": {
        "float": ["float({scalar})", "{vector}.tolist()[{row}]"],
        "int": ["int(fw.abs({scalar})) % 4", "{vector}.argmax().item()"],
        "vector": ["fw.tensor({vector}.numpy() * 0.5)"],
    },
    "size": {
        "float": ["({batch}.shape[0] * 0.25)"],
        "int": ["x.shape[0]", "len(x)"],
        "batch": ["{batch}.reshape(-1, 3)", "fw.concat([{batch}, {batch}])[:x.shape[0]]",
                  "({batch} / (1 + x.shape[0]))"],
        "vector": ["fw.concat([{batch}, {batch}]).sum(0)"],
        "test": ["x.shape[0] > {few}", "x.shape == (2, 3)"],
    },
    "mask": {
        "scalar": ["{var:vector}[{var:vector} > {literal}].sum()",
                   "fw.unique_values(fw.round({vector})).sum()"],
        "int": ["fw.nonzero({vector} > {literal})[0].shape[0]",
                "len({var:batch}[x[:, 0] > 0.1317])"],
    },
    "list": {
        "list": ["[{vector}, {vector}]", "[t * {number} for t in {var:list}]",
                 "{var:list}[1:]", "list({var:list})", "[{vector} for _ in range({few})]"],
        "vector": ["fw.stack([*{var:list}, {vector}]).sum(0)", "sum({var:list}, {vector})",
                   "({var:list} or [{vector}])[0]"],
        "scalar": ["max({scalar}, {scalar})", "sorted([{scalar}, {scalar}, {scalar}])[0]"],
        "test": ["any(t.sum() > {literal} for t in {var:list})", "len({var:list}) > {few}"],
        "int": ["len({var:list})", "sum(1 for t in {var:list} if t[0] > {literal})"],
    },
    "attribute": {"vector": ["box.w", "box.h", "fw.tanh(box.h)"], "float": ["box.k"],
                  "test": ["box.last is None"]},
    "counter": {"int": ["box.n"], "test": ["box.n > {few}", "box.n % 2 == 1"],
                "float": ["(box.n * 0.1)"]},
    "global": {"float": ["RATE"], "vector": ["SHIFT"], "int": ["COUNT"]},
    "closure": {"vector": ["c"], "int": ["m"]},
    "mode": {"test": ["mode == 'a'", "mode is None", "mode in ('a', 'b')",
                      "isinstance(mode, str)"]},
    "random": {"vector": ["fw.rand(3)", "F.dropout({vector}, 0.4)", "fw.randn(3)"],
               "batch": ["F.dropout({batch}, 0.3)", "({batch} + fw.rand_like({batch}))"]},
    "helper": {"vector": ["helper({vector}, {float})"], "scalar": ["pair({vector}, {scalar})[1]"],
               "test": ["large({scalar})"]},
    "recursion": {"vector": ["deep({vector}, {few})"]},
    "method": {"vector": ["box.move({vector})"], "scalar": ["box.size()"]},
    "layer": {"batch": ["layer({batch})"], "vector": ["layer({batch}).sum(0)"]},
    "alias": {"test": ["{var:vector} is {var:vector}"]},
    "numbers": {"float": ["k", "(n * 0.3)", "(k ** 2)", "(1 / k)"],
                "test": ["k > 0.9137", "n > {few}"], "scalar": ["({scalar} * k)"],
                "vector": ["({vector} + n)"]},
    "integer": {"scalar": ["fw.round({scalar} * 2)", "({vector} > {literal}).sum()"],
                "vector": ["fw.round({vector})", "({vector} > 0.1317)"]},
}

# ---- statements, by feature
STATEMENTS: dict[str, list[Form]] = {
    "core": [Form("{set:vector} = {vector}"), Form("{set:batch} = {batch}"),
             Form("{set:scalar} = {scalar}"), Form("{set:float} = {float}")],
    "if": [Form("if {test}:\n    {block}"), Form("if {test}:\n    {block}\nelse:\n    {block}"),
           Form("if {test}:\n    {block}\nelif {test}:\n    {block}\nelse:\n    {block}")],
    "while": [
        Form("{my:i} = 0\nwhile {scalar} < {literal} and {my:i} < {some}:\n    {my:i} += 1\n"
             "    {loop}", {"i": "int"}),
        Form("{my:s} = fw.sin({scalar})\nwhile {my:s} < 1.7371:\n"
             "    {my:s} = {my:s} + 0.6 + 0.2 * fw.sin({scalar})\n    {loop}", {"s": "scalar"}),
        Form("{my:i} = 0\nwhile True:\n    {my:i} += 1\n    if {my:i} >= {some} or {test}:\n"
             "        break\n    {loop}", {"i": "int"}),
        Form("{my:s} = {scalar} * 0.2\n{my:i} = 0\nwhile {my:s} < 1.3171 and {my:i} < {some}:\n"
             "    {my:i} = {my:i} + 1\n    {my:s} += 0.31\n    {loop}\nelse:\n    {block}",
             {"s": "scalar", "i": "int"}),
        Form("{my:t} = fw.asarray(0)\nwhile {my:t} < {some}:\n    {my:t} = {my:t} + 1\n"
             "    {loop}", {"t": "scalar"}),
        Form("{my:a} = math.sin({float})\nwhile {my:a} < 2.1737:\n    {my:a} += 0.73\n    {loop}",
             {"a": "float"}),
        Form("{my:v} = {vector}\n{my:i} = 0\nwhile {my:v}.sum() < 2.1737 and {my:i} < 6:\n"
             "    {my:v} = fw.tanh({my:v} * 0.5) + 0.4173\n    {my:i} += 1", {"v": "vector",
                                                                            "i": "int"}),
    ],
    "for": [Form("for {my:i} in range({some}):\n    {loop}", {"i": "int"}),
            Form("for {my:i} in range({int} % 4):\n    {loop}", {"i": "int"}),
            Form("for {my:i} in range({some}):\n    {loop}\nelse:\n    {block}", {"i": "int"}),
            Form("for {my:i}, {my:a} in enumerate([0.5, 1.25]):\n    {loop}",
                 {"i": "int", "a": "float"})],
    "rows": [Form("for {my:t} in {batch}:\n    {loop}", {"t": "vector"}),
             Form("for {my:s} in {vector}:\n    {loop}", {"s": "scalar"})],
    "size": [Form("for {my:i} in range(x.shape[0]):\n    {set:vector} = x[{my:i}] * {float}\n"
                  "    {loop}", {"i": "int"}),
             Form("for {my:i} in range(len(x)):\n    {loop}", {"i": "int"}),
             Form("for {my:i}, {my:t} in enumerate({batch}):\n    {loop}",
                  {"i": "int", "t": "vector"}),
             Form("for {my:t}, {my:q} in zip(x, x * {number}):\n    {loop}",
                  {"t": "vector", "q": "vector"}),
             Form("{my:i} = 0\nwhile {my:i} < x.shape[0]:\n    {set:vector} = {vector} + "
                  "x[{my:i}]\n    {my:i} += 1\n    {loop}", {"i": "int"}),
             Form("for {my:i} in range(1, x.shape[0], 2):\n    {loop}\nelse:\n    {block}",
                  {"i": "int"})],
    "early": [Form("if {test}:\n    return {result}")],
    "inplace": [Form("{in:batch} += {vector}"), Form("{in:vector} *= {scalar}"),
                Form("{in:vector}[{row}] = {scalar}"), Form("{in:batch}[0] = {vector}"),
                Form("{in:vector} -= {var:vector}"), Form("x *= {number}"), Form("v += {vector}"),
                Form("{in:vector}.copy_({vector})")],
    "attribute": [Form("box.h = {vector}"), Form("box.w = box.w * {number}"),
                  Form("box.k = {number}"), Form("box.h += {vector}"),
                  Form("box.w[{row}] = {scalar}"), Form("box.last = {scalar}"),
                  Form("box.h, box.w = box.w, box.h"), Form("box.found = {test}")],
    "counter": [Form("box.n += 1"), Form("box.n = (box.n + {few}) % 5")],
    "global": [Form("COUNT += 1"), Form("SHIFT = SHIFT * {number}"), Form("SHIFT += {vector}")],
    "closure": [Form("c = c + {vector}"), Form("c *= {number}"), Form("m += 1")],
    "log": [Form("log.append({scalar})"), Form("store['last'] = {vector}"),
            Form("store[{few}] = {scalar}"), Form("log.append({float})"),
            Form("if len(log) > 3:\n    log.clear()")],
    "list": [Form("{set:list} = {list}"), Form("{in:list}.append({vector})"),
             Form("for {my:t} in tuple({list}):\n    {loop}", {"t": "vector"})],
    "alias": [Form("{set:vector} = {var:vector}"),
              Form("{my:q} = {var:vector}\nif {test}:\n    {block}", {"q": "vector"}),
              Form("{set:vector}, {set:vector} = {var:vector}, {var:vector}")],
    "raise": [Form("if {test}:\n    raise ValueError('stop')"),
              Form("try:\n    {block}\n    if {test}:\n        raise KeyError('out')\n"
                   "    {block}\nexcept KeyError:\n    {block}"),
              Form("try:\n    {block}\n    assert {test}, 'no'\nexcept AssertionError as error:\n"
                   "    {block}\nelse:\n    {block}"),
              Form("try:\n    {block}\nfinally:\n    {block}"),
              Form("try:\n    {set:scalar} = {vector}[{int}]\nexcept IndexError:\n    {block}")],
    "gradient": [
        Form("{my:g} = {vector}.detach().requires_grad_()\n"
             "({my:g} * {vector}).sum().backward()\n{set:vector} = {my:g}.grad", {"g": "vector"}),
        Form("{my:g} = {vector}.detach().requires_grad_()\n{my:y} = {my:g} * 1.0\n{turn}\n"
             "(({my:y} * {my:g}).sum() + {scalar}).backward()\n{set:vector} = {my:g}.grad"),
        Form("p.grad = None\n{my:y} = p * {number}\n{turn}\n{my:y}.sum().backward()\n"
             "{set:vector} = p.grad * 0.5"),
        Form("(p * {vector}).sum().backward()"),
    ],
    "optimizer": [
        Form("opt.zero_grad()\n{my:q} = fw.tanh(layer({batch})).mean()\n{my:q}.backward()\n"
             "opt.step()"),
        Form("fw.tanh(layer({batch})).mean().backward()")],
    "no_grad": [Form("with fw.no_grad():\n    {block}")],
    "generator": [Form("for {my:t} in walk({vector}):\n    {loop}", {"t": "vector"}),
                  Form("{set:vector} = sum(walk({vector}), {vector})")],
    "match": [Form("match {int} % 3:\n    case 0:\n        {block}\n    case 1:\n        {block}\n"
                   "    case _:\n        {block}"),
              Form("match mode:\n    case str():\n        {block}\n    case None:\n"
                   "        {block}")],
}

# Statements that print, log and warn. They are no feature like the others: `write` adds them.
EFFECTS = [
    Form("print('a', {scalar})"), Form("print({vector})"), Form("print({test}, {int}, sep='-')"),
    Form('print(f"b {{scalar}:.3f} {{float}:.2f} {{int}}")'), Form("print(x.shape, len(x), v)"),
    Form("print([{scalar}, {int}], ({float}, 'c'), {'d': {vector}})"),
    Form("print('e', {scalar}.item(), end='; ')"), Form('print(f"{{vector}} {{float}!r:>20}")'),
    Form("LOG.info('f %.3f %s', {float}, {scalar})"), Form('LOG.warning(f"g {{scalar}}")'),
    Form("LOG.debug('h %s', {vector})"),
    Form("warnings.warn('careful')"), Form('warnings.warn(f"i {{scalar}.item():.2f}")'),
    Form('sys.stdout.write(f"j {{float}:.3f}\\n")'),
    Form("print('k', {float}, file=sys.stderr, flush=True)"),
    Form('{my:m} = f"l {{scalar}:.2f}"\nprint({my:m})\nLOG.error({my:m})'),
    Form('say(f"m {{scalar}.item():.2f}")'), Form('box.say(f"n {{float}:.3f}", {scalar})'),
    Form("print('o ' + str({float}) + '!')"), Form("print('{:.2f} {}'.format({float}, {int}))"),
    Form("print('p %.2f' % {float})"), Form('print(f"{float({scalar}):.2f}")'),
    Form("if {test}:\n    print('q', {scalar})\n    {block}"),
    Form("{my:q} = {scalar}\n{block}\nprint('r', {my:q})", {"q": "scalar"}),
    Form("for {my:i} in range({some}):\n    print('s', {my:i}, {scalar})\n    {loop}",
         {"i": "int"}),
    Form("{my:i} = 0\nwhile {scalar} < {literal} and {my:i} < {some}:\n    {my:i} += 1\n"
         "    print(f\"t {{my:i}} {{scalar}:.2f}\")\n    {loop}", {"i": "int"}),
    Form("store['text'] = f\"{{scalar}:.1f}\""), Form('print(len(f"{{scalar}:.1f}"))'),
]

EFFECTS_PROLOGUE = """\
import logging
import sys
import warnings

class Handler(logging.Handler):
    def emit(self, record):
        RECORDS.append((record.levelname, record.getMessage(), record.lineno, record.funcName))

RECORDS = []
LOG = logging.Logger("program", logging.INFO)
LOG.addHandler(Handler())

def say(text):
    print('say', text)

def say_of_box(self, text, value):
    LOG.warning(text)
    print(text, value, self.k)

Box.say = say_of_box

"""

LEAVING = [Form("break"), Form("continue"), Form("if {test}:\n    break"),
           Form("if {test}:\n    continue"), Form("if {test}:\n    return {result}")]

# Turns of y that a gradient goes through.
TURNS = ["if {test}:\n    {my:y} = {my:y} * {number}\nelse:\n    {my:y} = fw.tanh({my:y})",
         "while {my:y}.sum() < 2.1317:\n    {my:y} = {my:y} + 0.9 + 0.1 * fw.sin({my:y})",
         "for _ in range({some}):\n    {my:y} = fw.tanh({my:y} * {vector})",
         "{my:y} = {my:y} * {vector}"]

RESULTS = ["{var:vector}", "({var:batch}, {scalar})", "{vector}", "{var:batch}",
           "({vector}, {float})", "dict(a={vector}, b=[{scalar}, {int}])", "{float}",
           "[{var:vector}, {var:vector}]", "({var:vector}, {test})"]

PROLOGUE = """\
import math
import fusewire as fw
import fusewire.nn.functional as F
from fusewire import nn

class Box:
    def move(self, v):
        self.h = fw.tanh(self.h + v)
        return self.h
    def size(self):
        if self.h.sum() > 0.7131:
            return self.h.max()
        return self.h.min()

RATE, COUNT = 0.5, 0
W = fw.tensor([[0.5, -0.25, 0.75], [-0.5, 0.3, 0.2], [0.1, 0.6, -0.4]])
SHIFT = fw.tensor([0.3, -0.2, 0.1])
box = Box()
box.w, box.h, box.k, box.n, box.last = fw.tensor([0.4, 0.5, -0.6]), fw.zeros(3), 0.75, 0, None
log, store = [], {}
p = fw.tensor([0.2, 0.9, -0.5], requires_grad=True)
layer = nn.Linear(3, 3)
opt = fw.optim.SGD(layer.parameters(), lr=0.1, momentum=0.9)

def deep(v, d):
    if d <= 0 or v.sum() > 1.9317:
        return v
    return deep(v * 0.5 + 0.25, d - 1) + 0.125

def large(s):
    return s > 0.5713

def walk(v):
    for _ in range(4):
        if v.sum() > 2.7131:
            return
        v = v + 0.6
        yield v
"""
