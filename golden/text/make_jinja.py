#!/usr/bin/env python3
"""Makes jinja.json: templates with variables, and what Jinja renders.

usage: python3 make_jinja.py > jinja.json     (pip install jinja2==3.1.6)

The environment is the one in which Hugging Face renders chat templates. A row has "output", or
"error" if rendering raises. Templates are random over the part of the language that
runtime/text/jinja knows, with a stress on white space around tags and on precedence.
"""
import json
import random

from jinja2 import nodes
from jinja2.exceptions import TemplateError
from jinja2.ext import Extension, loopcontrols
from jinja2.sandbox import ImmutableSandboxedEnvironment

VARIABLES = {
    "messages": [{"role": "system", "content": " Be brief.\n"}, {"role": "user", "content": "Hé\u3000llo"}, {"role": "assistant", "content": ""}],
    "text": "\t añb \x1f", "word": "user", "empty": "", "n": 3, "zero": 0, "minus": -7, "yes": True, "no": False, "nothing": None,
    "words": ["user", "a", ""], "none_left": [],
}


class Generation(Extension):
    tags = {"generation"}

    def parse(self, parser):
        line = next(parser.stream).lineno
        body = parser.parse_statements(["name:endgeneration"], drop_needle=True)
        return nodes.CallBlock(self.call_method("_body"), [], [], body).set_lineno(line)

    def _body(self, caller):
        return caller()


def environment():
    env = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True, extensions=[Generation, loopcontrols])

    def raise_exception(message=""):
        raise TemplateError(message)

    def tojson(x, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
        return json.dumps(x, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)

    env.globals["raise_exception"] = raise_exception
    env.filters["tojson"] = tojson
    return env


def blank(rng):
    return "".join(rng.choice([" ", "\n", "\t", "", "\r\n", "  ", "\u3000", "\x0b"]) for _ in range(rng.randint(0, 3)))


def text(rng):
    return blank(rng) + rng.choice(["", "x", "y z", "{", "}", "%", "#", "{ {", "}}", "é"]) + blank(rng)


def tag(rng, body):
    return "{%" + rng.choice(["", "", "-", "+"]) + " " + body + " " + rng.choice(["", "", "-", "+"]) + "%}"


def atom(rng):
    return rng.choice(["text", "word", "empty", "n", "zero", "minus", "yes", "no", "nothing", "words", "missing", "messages", "messages[0]",
                       "messages[1].content", "messages[-1]['role']", "messages[5]", "words[n]", "words[zero]", "text[1]", "text[-2]", "loop.index0",
                       "loop.first", "loop.last", "loop.length", "loop.revindex", "'user'", "\"a\\n\\x41\\u00e9\\q\"", "'it\\'s' \"!\"", "1", "0", "12", "true", "False", "none",
                       "['user', n]", "[]", "messages[0].nope", "nothing.x", "message.role", "message['content']"])


def number(rng):
    return rng.choice(["n", "zero", "minus", "yes", "no", "1", "12", "loop.index0", "missing", "-n", "- 3", "(n + 1)", "words|length", "nothing"])


def string(rng):
    return rng.choice(["text", "word", "empty", "'s'", "n", "messages[1].content", "missing", "none", "text|trim", "message.role"])


def expression(rng, depth):
    if depth == 0 or rng.random() < 0.15:
        return atom(rng)

    def sub():
        made = expression(rng, depth - 1)
        # `not` as an operand would be read as a name, and what follows a test as its argument.
        return f"({made})" if made.startswith("not ") or " is " in made else made

    form = rng.randrange(14)
    if form < 2:
        return f" {rng.choice(['+', '-', '*', '//', '%'])} ".join(number(rng) for _ in range(rng.randint(2, 4)))
    if form == 2:
        return f" {rng.choice('+~')} ".join(string(rng) for _ in range(rng.randint(2, 4)))
    if form == 3:
        return f"{sub()} + {sub()}"
    if form < 7:
        return f"{sub()} {rng.choice(['==', '!=', '<', '<=', '>', '>=', 'in', 'not in', '=='])} {sub()}"
    if form < 9:
        return f"{sub()} {rng.choice(['and', 'or'])} {sub()}"
    if form == 9:
        return f"not {sub()}"
    if form == 10:
        return f"({sub()})"
    if form == 11:
        return f"{sub()} if {sub()}" + (f" else {sub()}" if rng.random() < 0.7 else "")
    if form == 12:
        return f"({sub()})" + rng.choice(["|length", " | count"]) if rng.random() < 0.5 else string(rng) + "|trim"
    return sub() + rng.choice([" is defined", " is not defined", " is none", " is string", " is undefined", " is not none"])


def statements(rng, depth):
    out = ""
    for _ in range(rng.randint(1, 4)):
        out += text(rng)
        form = rng.randrange(8) if depth > 0 else rng.randrange(3)
        if form < 2:
            out += rng.choice(["{{", "{{-", "{{+"]) + " " + expression(rng, 2) + " " + rng.choice(["}}", "-}}"])
        elif form == 2:
            out += rng.choice(["{#", "{#-", "{#+"]) + rng.choice(["", " c ", "a\nb", "%}"]) + rng.choice(["#}", "-#}", "+#}"])
        elif form == 3:
            out += tag(rng, f"set {rng.choice(['a', 'word', 'n'])} = {expression(rng, 2)}")
        elif form < 6:
            out += tag(rng, "if " + expression(rng, 2)) + statements(rng, depth - 1)
            if rng.random() < 0.3:
                out += tag(rng, "elif " + expression(rng, 1)) + statements(rng, depth - 1)
            if rng.random() < 0.5:
                out += tag(rng, "else") + statements(rng, depth - 1)
            out += tag(rng, "endif")
        else:
            out += tag(rng, f"for {rng.choice(['message', 'a', 'word'])} in {rng.choice(['messages', 'words', 'none_left', 'missing', '[1, n]', 'messages[0]'])}")
            out += statements(rng, depth - 1)
            if rng.random() < 0.2:
                out += tag(rng, "else") + statements(rng, depth - 1)
            out += tag(rng, "endfor")
    return out + text(rng)


# What random templates don't reach: each rendered by itself.
FEATURES = r"""
{{ 1.5 }} {{ 1e3 }} {{ 0.1 + 0.2 }} {{ 1e16 }} {{ 1e-5 }} {{ 123456.0 }} {{ 1.0e22 }} {{ -0.0 }} {{ 100 / 4 }} {{ 7 // 2.0 }} {{ -7 // 2.0 }} {{ -7 % 2.5 }} {{ 7.5 % -2 }}
{{ 2 ** 10 }} {{ 2 ** -1 }} {{ 2 ** 3 ** 2 }} {{ -2 ** 2 }} {{ 2.0 ** 0.5 }} {{ +3 }} {{ +-3 }} {{ 3 * 1.5 }} {{ 1 == 1.0 }} {{ 1 < 1.5 }} {{ true + 1.5 }}
{{ 'ab' * 3 }}{{ 3 * 'ab' }}{{ 'ab' * -1 }}{{ [1, 'x'] * 2 }}{{ (1,) * 2 }}
{{ (1, 2) }} {{ () }} {{ (1,) }} {{ 1, 'a' }} {{ [1, 2.5, none, true, 'it\'s', "q\"", 'a\'b"c', '\n\t\\\x07\u00e9\u2028'] }}
{{ {'a': 1, 'b': [2, {'c': none}]} }} {{ {} }} {{ {'a': 1,} }} {{ {'a': 1, 'a': 2} }} {{ {'a': 1}.a }} {{ {'a': 1}['a'] }} {{ {'a': 1}.b is defined }}
{{ {1: 'x', 'b': 2, 1: 'y'} }} {{ {1: 2}[1] }} {{ {1: 2}|tojson }} {{ {3: 1, 1: 2}|dictsort }} {{ 1 in {1: 2} }} {{ {1: 2}.get(1) }}
{{ {'a': 1} == {'a': 1.0} }} {{ [1, 2] == (1, 2) }} {{ [1, [2]] == [1, [2]] }} {{ [1, 2] < [1, 3] }} {{ (1, 2) < (1,) }} {{ [1] < [2] < [3] }} {{ 'a' in {'a': 1} }} {{ 1 in [1.0] }}
{{ text[1:] }}|{{ text[:-1] }}|{{ text[::2] }}|{{ text[::-1] }}|{{ text[-3:-1] }}|{{ text[10:] }}|{{ text[2:1] }}|{{ words[1:] }}|{{ words[::-1] }}|{{ words[:none] }}|{{ (1, 2, 3)[1:] }}|{{ [1,2,3,4,5][4:0:-2] }}|{{ [1,2,3][-100:100] }}
{{ range(3)|list }} {{ range(1, 4)|list }} {{ range(5, 0, -2)|list }} {{ range(3)|length }} {{ range(3)[1] }} {{ 2 in range(3) }} {{ range(0)|list }}
{% for a, b in [(1, 2), [3, 4], 'xy'] %}{{ a }}-{{ b }};{% endfor %}{% for k, v in {'x': 1, 'y': 2}.items() %}{{ k }}={{ v }};{% endfor %}{% for k in {'x': 1} %}{{ k }}{% endfor %}{% for c in 'añ' %}[{{ c }}]{% endfor %}
{% for x in [1, 2, 3, 4] if x % 2 == 0 %}{{ loop.index }}/{{ loop.length }}:{{ x }} {% else %}none{% endfor %}{% for x in [1] if x > 1 %}{{ x }}{% else %}none{% endfor %}
{% for x in [1, 2, 3, 4] %}{% if x == 2 %}{% continue %}{% endif %}{% if x == 4 %}{% break %}{% endif %}{{ x }}{% endfor %}
{% for x in [1, 2, 3] %}{{ loop.previtem is defined }}{{ loop.nextitem is defined }}{{ loop.cycle('a', 'b') }}{{ loop.revindex0 }}{{ loop.depth }}{% for y in [1] %}{{ loop.depth0 }}{% endfor %}{{ loop.nextitem if not loop.last }} {% endfor %}
{% set a, b = 1, 2 %}{{ a }}{{ b }}{% set (c, d) = [3, 4] %}{{ c }}{{ d }}{% set e = 1, 2 %}{{ e }}
{% set x %}a {{ n }} b{% endset %}[{{ x }}]{% set y | upper | replace('B', 'x') %}abc{% endset %}{{ y }}
{% set ns = namespace(a=1, b='x') %}{% for i in [1, 2, 3] %}{% set ns.a = ns.a + i %}{% set ns.c = i %}{% endfor %}{{ ns.a }}{{ ns.b }}{{ ns.c }}{{ ns.d is defined }}{{ namespace is defined }}{{ range is callable }}
{% macro m(a, b=2, c='x') %}({{ a }},{{ b }},{{ c }}){% endmacro %}{{ m(1) }}{{ m(1, c=3) }}{{ m(b=1, a=2) }}{{ m() }}{{ m(none, missing) }}
{% macro outer(items) %}{% for i in items %}{{ inner(i) }}{% endfor %}{% endmacro %}{% macro inner(i) %}<{{ i }}>{% endmacro %}{{ outer([1, 2]) }}
{% macro deep(v, level=0) %}{% if v is mapping %}{% for k, w in v.items() %}{{ '  ' * level }}{{ k }}:{{ deep(w, level + 1) }}{% endfor %}{% else %}{{ v }};{% endif %}{% endmacro %}{{ deep({'a': {'b': 1, 'c': {'d': 2}}, 'e': 3}) }}
{% macro box(t) %}[{{ t }}{{ caller('k') }}]{% endmacro %}{% call(x) box('a') %}{{ x }}-{{ n }}{% endcall %}{% macro c2() %}{{ caller() }}{% endmacro %}{% call c2() %}z{% endcall %}
{% macro g() %}{{ later }}{% endmacro %}{% set later = 5 %}{{ g() }}{% for later in [1] %}{{ g() }}{% endfor %}
{% filter upper %}abc {{ word }}{% endfilter %}{% filter trim | replace('b', 'c') %} abc {% endfilter %}
{% with a = 1, b = n %}{{ a }}{{ b }}{% set n = 9 %}{{ n }}{% endwith %}{{ n }}{{ a is defined }}
{% if none_left %}x{% elif words %}y{% endif %}{% if messages and not nothing %}z{% endif %}{{ 'a' if yes }}{{ 'b' if no }}{{ ('c' if no) is defined }}
{{ ' x '.strip() }}|{{ 'xxaxx'.strip('x') }}|{{ 'xyaxy'.lstrip('yx') }}|{{ 'a  '.rstrip() }}|{{ '\u3000é '.strip() }}|{{ 'éaé'.strip('é') }}
{{ 'a,b,,c'.split(',') }} {{ ' a  b '.split() }} {{ 'a,b,c'.split(',', 1) }} {{ 'a b  c '.split(none, 1) }} {{ 'a,b,c'.rsplit(',', 1) }} {{ ' a  b  c '.rsplit(maxsplit=1) }} {{ ''.split() }} {{ ''.split(',') }} {{ 'a</think>b'.split('</think>')[-1] }}
{{ 'abc'.startswith('a') }}{{ 'abc'.startswith(('x', 'a')) }}{{ 'abc'.endswith('bc') }}{{ 'abc'.endswith('') }}{{ ''.startswith('a') }}
{{ 'aXbX'.replace('X', '-') }}{{ 'aXbX'.replace('X', '-', 1) }}{{ 'ab'.replace('', '.') }}{{ 'aé'.upper() }}{{ 'AÉ'.lower() }}{{ 'straße'.upper() }}{{ 'ab CD'.title() }}{{ "it's a-b".title() }}{{ 'aB c'.capitalize() }}
{{ 'abcabc'.find('c') }}{{ 'éab'.find('a') }}{{ 'abc'.find('x') }}{{ 'abcabc'.rfind('c') }}{{ 'abc'.index('b') }}{{ 'abcab'.count('ab') }}{{ 'aé'.count('') }}
{{ '-'.join(['a', 'b']) }}{{ ','.join('xyz') }}{{ 'a\nb\r\nc'.splitlines() }}{{ 'a\nb'.splitlines(true) }}{{ 'a=b=c'.partition('=') }}{{ 'a=b=c'.rpartition('=') }}{{ 'ab'.partition('x') }}{{ 'abc'.removeprefix('a') }}{{ 'abc'.removesuffix('a') }}
{{ '12'.isdigit() }}{{ '1a'.isdigit() }}{{ ''.isdigit() }}{{ 'ab'.isalpha() }}{{ 'a1'.isalnum() }}{{ ' '.isspace() }}{{ 'AB'.isupper() }}{{ 'ab1'.islower() }}{{ '1'.islower() }}{{ '½'.isnumeric() }}{{ 'é'.isascii() }}
{{ 'a{}b{}'.format(1, 'x') }}{{ '{0}{1}{0}'.format('a', 'b') }}{{ '{x}{{}}'.format(x=none) }}
{{ {'a': 1}.get('a') }}{{ {'a': 1}.get('b') }}{{ {'a': 1}.get('b', 'z') }}{{ {'a': 1}.keys() }}{{ {'a': 1}.values() }}{{ {'a': 1}.items() }}{{ {'a': 1}.keys()|list }}{{ {'items': 5}.items is callable }}{{ {'items': 5}['items'] }}
{{ [1, 2, 1].count(1) }}{{ [1, 2].index(2) }}{{ [].append is defined }}{{ {}.update is defined }}{{ 'x'.nope is defined }}{{ words.copy() }}
{{ messages|map(attribute='role')|list }}{{ ['a', 'b']|map('upper')|join(',') }}{{ messages|map(attribute='x', default='d')|list }}{{ [[1, 2]]|map('first')|list }}{{ [' a ']|map('trim')|list }}
{{ messages|selectattr('role', 'equalto', 'user')|list|length }}{{ messages|rejectattr('role', 'in', ['user', 'system'])|map(attribute='role')|list }}{{ messages|selectattr('content')|list|length }}{{ [0, 1, 2]|select|list }}{{ [1, 2, 3]|select('odd')|list }}{{ [1, none]|reject('none')|list }}{{ [1, 5]|select('gt', 2)|list }}
{{ none|selectattr('x')|list }}{{ none|map('upper')|list }}{{ 0|reject('odd')|list }}
{{ [3, 1, 2]|sort }}{{ ['b', 'A', 'c']|sort }}{{ ['b', 'A']|sort(case_sensitive=true) }}{{ [3, 1]|sort(reverse=true) }}{{ messages|sort(attribute='role')|map(attribute='role')|list }}{{ {'b': 1, 'A': 2}|dictsort }}{{ {'b': 1, 'a': 2}|dictsort(by='value') }}{{ {'b': 1, 'a': 2}|dictsort(reverse=true) }}
{{ [1, 2, 1, 'a', 'A']|unique|list }}{{ [1, 5, 3]|max }}{{ ['b', 'A']|min }}{{ []|max is defined }}{{ [1, 2, 3.5]|sum }}{{ [{'x': 1}, {'x': 2}]|sum(attribute='x') }}{{ [1, 2]|first }}{{ 'abc'|last }}{{ []|first is defined }}{{ [1, 2]|reverse|list }}{{ 'aé'|reverse }}
{{ missing|default('d') }}{{ none|default('d') }}{{ none|default('d', true) }}{{ ''|d('e', boolean=true) }}{{ missing|default }}|{{ missing.x|default('y') if missing is defined else 'u' }}
{{ 'a'|replace('a', 'b') }}{{ 'aaa'|replace('a', 'b', 2) }}{{ 5|replace('5', 6) }}{{ 'a\nb\n\nc'|indent }}|{{ 'a\nb'|indent(2, true) }}|{{ 'a\n\nb'|indent(1, blank=true) }}|{{ 'a\nb'|indent('>>') }}|{{ ''|indent }}
{{ -5|abs }}{{ (-5)|abs }}{{ -2.5|abs }}{{ '12'|int }}{{ ' 12 '|int }}{{ 'x'|int }}{{ 'x'|int(7) }}{{ '1.9'|int }}{{ 2.9|int }}{{ true|int }}{{ '1.5'|float }}{{ 'x'|float }}{{ 3|float }}{{ 2.5|round }}{{ 3.5|round }}{{ 2.345|round(2) }}{{ 7|round }}
{{ '<'|safe + '<' + '>' }}{{ '<' + '>'|safe }}{{ ('<'|safe) ~ '<' }}{{ '&'|e + '&' }}{{ ' <'|safe|trim + '<' }}{{ '<'|safe|string + '<' }}{{ '&'|e|e }}
{{ '<a & "b">'|e }}{{ '<a>'|safe }}{{ 5|string ~ 'x' }}{{ [1]|string }}{{ 'aB'|lower }}{{ 'aB'|upper }}{{ "it's a-b (c) d"|title }}{{ 'aB'|capitalize }}{{ 'a b  c'|wordcount }}{{ 'xxaxx'|trim('x') }}
{{ [1, 2.0, none, true, 'é"\\\n\x01<>&\'', {'a': [], 'b': {}}]|tojson }}|{{ 'é🙂'|tojson(ensure_ascii=true) }}|{{ {'b': 1, 'a': [1, {'c': 2}], 'd': {}}|tojson(indent=2) }}|{{ {'b': 1, 'a': 2}|tojson(sort_keys=true) }}|{{ [1, {'a': 2}]|tojson(separators=(',', ':')) }}|{{ [1]|tojson(indent=0) }}|{{ (1, 2)|tojson }}|{{ 1e100|tojson }}|{{ messages|tojson(indent=4) }}
{{ {'a': 1}|items|list }}{{ missing|items|list }}{{ 'ab'|list }}{{ {'a': 1}|list }}{{ [1, 2]|join('-') }}{{ messages|join(',', attribute='role') }}{{ 'abc'|join('.') }}{{ [1, none, 'a']|join }}
{{ 1 is integer }}{{ true is integer }}{{ 1.0 is float }}{{ 1 is number }}{{ true is number }}{{ true is boolean }}{{ 1 is boolean }}{{ true is true }}{{ 1 is true }}{{ false is false }}{{ 'a' is mapping }}{{ {} is mapping }}{{ [] is sequence }}{{ 'a' is sequence }}{{ {} is sequence }}{{ 1 is sequence }}{{ [] is iterable }}{{ 1 is iterable }}{{ none is none }}
{{ 4 is even }}{{ 4 is odd }}{{ 9 is divisibleby 3 }}{{ 9 is divisibleby(2) }}{{ 1 is eq 1 }}{{ 1 is ne(1) }}{{ 2 is gt 1 }}{{ 2 is lessthan 1 }}{{ 'a' is in ['a'] }}{{ 'a' is not in ['a'] }}{{ 'abc' is lower }}{{ 'ABC' is upper }}{{ 'a' is sameas 'a' }}{{ missing is undefined }}{{ messages is iterable and messages is not string }}{{ m is callable }}
{{ 'a' ~ 1 ~ 2.5 ~ none ~ [1] ~ missing }}{{ 'a' 'b' }}{{ not 1 == 2 }}{{ 1 if 0 else 2 if 0 else 3 }}{{ 1 or 2 }}{{ 0 or '' }}{{ 1 and 0 }}{{ [] and 1 }}{{ (1, 2)|first }}{{ -1 ** 2 }}{{ 3 - -1 }}{{ 1 < 2 < 3 }}{{ 1 < 3 < 2 }}
{{ dict(a=1, b=2) }}{{ dict({'x': 1}, y=2) }}{{ namespace({'a': 5}).a }}{{ (1 < 2)|string }}{{ "a" in "abc" and "d" not in "abc" }}{{ {'a': {'b': [10, 20]}}.a.b[1] }}{{ {'a': {'b': [10, 20]}}['a']['b'][-1] }}
{{ {'a': 1} + {} }}
{{ [1] + (2,) }}
{{ 1 / 0 }}
{{ 'a' < 1 }}
{{ none + 1 }}
{{ [1, 2].append(3) }}
{{ {'a': 1}.pop('a') }}
{{ missing() }}
{{ missing.x }}
{{ missing['x'] }}
{{ 'x'.nope() }}
{{ 5() }}
{{ 'a'.split(5) }}
{{ 'a'.replace('a') }}
{{ [1, 'a']|sort }}
{{ 1|join(',') }}
{{ missing|tojson }}
{{ range|tojson }}
{{ 'x'|nope }}
{{ 'x' is nope }}
{% set a, b = [1, 2, 3] %}
{% for a, b in [1] %}{% endfor %}
{% macro m(a) %}{% endmacro %}{{ m(1, 2) }}
{% macro m(a) %}{% endmacro %}{{ m(b=1) }}
{% set n.x = 1 %}
{{ raise_exception('boom ' ~ n) }}
{% if yes %}{% set fresh = 1 %}{% endif %}{{ fresh }}{% if no %}{% set other = 1 %}{% endif %}{{ other is defined }}
{% set n = 1 %}{% for i in [1, 2] %}{% set n = n + 1 %}{{ n }}{% endfor %}{{ n }}
{% generation %}g{{ n }}{% endgeneration %} h
"""


def features(env):
    for source in FEATURES.strip("\n").split("\n"):
        try:
            yield {"template": source, "output": env.from_string(source).render(**VARIABLES)}
        except Exception:
            yield {"template": source, "error": True}


def rows(count, seed):
    rng = random.Random(seed)
    env = environment()
    made = 0
    while made < count:
        source = statements(rng, 2) if rng.random() < 0.5 else "{{ " + expression(rng, 3) + " }}"
        try:
            row = {"template": source, "output": env.from_string(source).render(**VARIABLES)}
        except (TemplateError, TypeError, ZeroDivisionError, ValueError):
            row = {"template": source, "error": True}
            if rng.random() < 0.8:
                continue
        made += 1
        yield row


def main():
    print(json.dumps({"variables": VARIABLES})[:-1] + ', "rows": [')
    all_rows = list(rows(600, 1)) + list(features(environment()))
    for i, row in enumerate(all_rows):
        print(json.dumps(row) + ("," if i + 1 < len(all_rows) else ""))
    print("]}")


if __name__ == "__main__":
    main()
