#!/usr/bin/env python3
"""Makes chat_templates.json: conversations, and the prompt that each published chat template makes of them in Hugging Face's environment.

usage: python3 make_chat_templates.py build/vocab/templates > chat_templates.json     (pip install jinja2==3.1.6)

The templates are those of llama.cpp's models/templates, which the set-up script fetches. A result is {"text"}, {"raised": message} for an
exception of the template's own, or {"error": type} for any other. strftime_now tells the time of 30 November 2026, 12:34:56.
"""
import datetime
import glob
import json
import os
import sys

from jinja2 import nodes
from jinja2.exceptions import TemplateError
from jinja2.ext import Extension, loopcontrols
from jinja2.sandbox import ImmutableSandboxedEnvironment


class Raised(TemplateError):
    pass


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

    def raise_exception(message):
        raise Raised(message)

    def tojson(x, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
        return json.dumps(x, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)

    env.filters["tojson"] = tojson
    env.globals["raise_exception"] = raise_exception
    env.globals["strftime_now"] = lambda form: datetime.datetime(2026, 11, 30, 12, 34, 56).strftime(form)
    return env


def function(name, description, properties, required):
    return {"type": "function", "function": {"name": name, "description": description,
                                             "parameters": {"type": "object", "properties": properties, "required": required}}}


TOOLS = [
    function("get_weather", "Tells the weather.\nOf one place.", {"place": {"type": "string", "description": "a city's \"name\" <é>"},
                                                                  "unit": {"type": "string", "enum": ["C", "F"], "default": "C"}}, ["place"]),
    function("add", "Adds numbers.", {"numbers": {"type": "array", "items": {"type": "number"}}, "exact": {"type": ["boolean", "null"]},
                                      "more": {"type": "object", "properties": {"x": {"type": "integer", "minimum": 1}}}}, []),
]


def call(name, arguments, number=None):
    made = {"type": "function", "function": {"name": name, "arguments": arguments}}
    return made if number is None else {"id": f"call_{number:05d}", **made}


def message(role, content, **more):
    return {"role": role, "content": content, **more}


SYSTEM = message("system", "You are brief.\nAlways.")
HELLO = message("user", " What's 1 < 2 && \"é\"?  ")
WEATHER = {"place": "Zürich", "unit": "C"}


def tool_turns(arguments, numbers):
    calls = [call("get_weather", arguments(WEATHER), numbers and 1), call("add", arguments({"numbers": [1, 2.5, -3e20], "exact": None, "more": {"x": True}}), numbers and 2)]
    ids = [{"tool_call_id": c["id"], "name": c["function"]["name"]} if numbers else {} for c in calls]
    return [SYSTEM, message("user", "Weather?"), message("assistant", "", tool_calls=calls[:1]), message("tool", '{"degrees": 7}', **ids[0]),
            message("assistant", "It is 7.", reasoning_content="Seven."), message("user", "And more?"), message("assistant", "Both:", tool_calls=calls),
            message("tool", "8", **ids[0]), message("tool", "[1]\n", **ids[1])]


CONVERSATIONS = {
    "user": {"messages": [HELLO]},
    "system": {"messages": [SYSTEM, HELLO], "add_generation_prompt": False},
    "turns": {"messages": [SYSTEM, HELLO, message("assistant", "Yes.\n"), message("user", "Sure?"), message("assistant", " <b>Sure</b> {{ x }}"), message("user", "")]},
    "ends with assistant": {"messages": [message("user", "a"), message("assistant", "b")], "add_generation_prompt": False},
    "two of a role": {"messages": [message("user", "a"), message("user", "b")]},
    "unknown role": {"messages": [message("robot", "x")]},
    "nothing": {"messages": []},
    "parts": {"messages": [message("user", [{"type": "text", "text": "One."}, {"type": "text", "text": "Two."}])]},
    "no content": {"messages": [HELLO, message("assistant", None, tool_calls=[call("add", {}, 3)])], "add_generation_prompt": False},
    "tools": {"messages": [SYSTEM, HELLO], "tools": TOOLS},
    "tools, no system": {"messages": [HELLO], "tools": TOOLS[1:]},
    "calls": {"messages": tool_turns(lambda a: a, True), "tools": TOOLS},
    "calls as text": {"messages": tool_turns(json.dumps, True), "tools": TOOLS},
    "calls without ids": {"messages": tool_turns(lambda a: a, None), "tools": TOOLS, "add_generation_prompt": False},
    "thinking": {"messages": [HELLO, message("assistant", "<think>\nHm.\n</think>\n\nYes."), message("user", "Why?"), message("assistant", "So.", reasoning_content="Because.\n"),
                              message("user", "Go on.")], "kwargs": {"enable_thinking": True, "thinking": True, "reasoning_effort": "high"}},
    "not thinking": {"messages": [SYSTEM, HELLO], "kwargs": {"enable_thinking": False, "thinking": False, "reasoning_effort": "low"}},
}


def render(env, source, conversation):
    try:
        template = env.from_string(source)
        text = template.render(messages=conversation["messages"], tools=conversation.get("tools"), documents=None,
                               add_generation_prompt=conversation.get("add_generation_prompt", True), bos_token="<s>", eos_token="</s>",
                               **conversation.get("kwargs", {}))
        return {"text": text}
    except Raised as e:
        return {"raised": str(e)}
    except Exception as e:
        return {"error": type(e).__name__}


def main():
    env = environment()
    results = {}
    for path in sorted(glob.glob(os.path.join(sys.argv[1], "*.jinja"))):
        source = open(path, encoding="utf-8", newline="").read()
        results[os.path.basename(path)] = {name: render(env, source, conversation) for name, conversation in CONVERSATIONS.items()}
    rows = ",\n".join(f"{json.dumps(name)}: {json.dumps(row)}" for name, row in results.items())
    print('{"conversations": ' + json.dumps(CONVERSATIONS) + ',\n"results": {\n' + rows + "}}")


main()
