#!/usr/bin/env python3
"""Makes jinja.json: templates with variables, and what Jinja renders.

usage: python3 make_jinja.py > jinja.json     (pip install jinja2==3.1.6)

The environment is the one in which Hugging Face renders chat templates. A row has "output", or
"error" if rendering raises. Templates are random over the part of the language that
runtime/text/jinja knows, with a stress on white space around tags and on precedence.
"""
import json
import random

from jinja2.exceptions import TemplateError
from jinja2.sandbox import ImmutableSandboxedEnvironment

VARIABLES = {
    "messages": [{"role": "system", "content": " Be brief.\n"}, {"role": "user", "content": "Hé\u3000llo"}, {"role": "assistant", "content": ""}],
    "text": "\t añb \x1f", "word": "user", "empty": "", "n": 3, "zero": 0, "minus": -7, "yes": True, "no": False, "nothing": None,
    "words": ["user", "a", ""], "none_left": [],
}


def environment():
    env = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True)

    def raise_exception(message=""):
        raise TemplateError(message)

    env.globals["raise_exception"] = raise_exception
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


def rows(count, seed):
    rng = random.Random(seed)
    env = environment()
    made = 0
    while made < count:
        source = statements(rng, 2) if rng.random() < 0.5 else "{{ " + expression(rng, 3) + " }}"
        try:
            row = {"template": source, "output": env.from_string(source).render(**VARIABLES)}
            # Left to a fuller interpreter: lists, dicts, floats and formatted text in the output.
            if any(mark in row["output"] for mark in ("[", "{'", "'}")):
                continue
        except (TemplateError, TypeError, ZeroDivisionError, ValueError):
            row = {"template": source, "error": True}
            if rng.random() < 0.8:
                continue
        made += 1
        yield row


def main():
    print(json.dumps({"variables": VARIABLES})[:-1] + ', "rows": [')
    all_rows = list(rows(600, 1))
    for i, row in enumerate(all_rows):
        print(json.dumps(row) + ("," if i + 1 < len(all_rows) else ""))
    print("]}")


if __name__ == "__main__":
    main()
