#include <fstream>
#include <string>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "runtime/text/jinja/evaluator.h"
#include "runtime/text/jinja/json_value.h"
#include "runtime/text/jinja/parser.h"

namespace isobit::jinja {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

absl::StatusOr<std::string> RenderSource(const std::string& source, const Map& variables = {},
                                         const Limits& limits = {}) {
  absl::StatusOr<Block> block = Parse(source);
  if (!block.ok()) return block.status();
  return Render(*block, variables, limits);
}

// Random templates, rendered by Jinja itself: golden/text/make_jinja.py.
TEST(JinjaTest, RendersAsJinja) {
  std::ifstream in(ISOBIT_SOURCE_DIR "/golden/text/jinja.json");
  const auto golden = nlohmann::ordered_json::parse(in);
  const Value variables = FromJson(golden.at("variables").dump()).value();
  int rendered = 0, failed = 0;
  for (const auto& row : golden.at("rows")) {
    const std::string source = row.at("template").get<std::string>();
    const auto got = RenderSource(source, *variables.map());
    if (row.contains("error")) {
      EXPECT_FALSE(got.ok()) << row.dump() << "\n   got " << nlohmann::json(*got).dump();
      ++failed;
    } else {
      EXPECT_TRUE(got.ok()) << row.dump() << "\n   got " << got.status();
      EXPECT_EQ(got.value_or(""), row.at("output").get<std::string>()) << row.dump();
      ++rendered;
    }
  }
  EXPECT_GT(rendered, 300);
  EXPECT_GT(failed, 100);
}

// What the full language has and this interpreter does not is refused by name, never guessed.
TEST(JinjaTest, RefusesTheRestByName) {
  const std::pair<const char*, const char*> kCases[] = {
      {"{% block b %}{% endblock %}", "'block'"},
      {"{% include 'x' %}", "'include'"},
      {"{% import 'x' as y %}", "'import'"},
      {"{% extends 'x' %}", "'extends'"},
      {"{% raw %}{{ {% endraw %}", "'raw'"},
      {"{% autoescape true %}{% endautoescape %}", "'autoescape'"},
      {"{% for (a, (b, c)) in x %}{% endfor %}", "'targets within targets'"},
      {"{% for k in x recursive %}{% endfor %}", "'for ... recursive'"},
      {"{{ 0x1F }}", "'0x1F'"},
      {"{{ 1_000 }}", "'1_000'"},
      {"{{ {1.5: 2} }}", "'a dict's key of type float'"},
      {"{{ range(*[1]) }}", "'*arguments'"},
      {"{{ 'a%s' % 3 }}", "'str % value'"},
      {"{{ [1]|batch(2) }}", "'|batch'"},
      {"{{ [1]|random }}", "'|random'"},
      {"{{ '%s'|format(1) }}", "'|format'"},
      {"{{ 'x'.zfill(3) }}", "'.zfill()'"},
      {"{{ '{:>3}'.format(1) }}", "'{:>3} in .format()'"},
      {"{{ cycler(1) }}", "'cycler()'"},
      {"{{ range(3) }}", "'printing a range or generator'"},
      {"{{ namespace() }}", "'printing a namespace'"},
      {"{% macro m() %}{{ varargs }}{% endmacro %}{{ m() }}", "'varargs'"},
      {"{% macro m() %}{% endmacro %}{{ m.name }}", "'macro.name'"},
      {"{% set a = namespace() %}{% set a.b = namespace() %}", "'a namespace in a namespace'"},
      {"{% for x in [1] %}{{ loop.changed(1) }}{% endfor %}", "'loop.changed'"},
      {"{{ '\\N{DASH}' }}", "'\\N{...}'"},
  };
  for (const auto& [source, feature] : kCases) {
    const auto got = RenderSource(source);
    ASSERT_FALSE(got.ok()) << source << " gave " << *got;
    EXPECT_EQ(got.status().code(), absl::StatusCode::kUnimplemented) << source << got.status();
    EXPECT_THAT(
        std::string(got.status().message()),
        AllOf(HasSubstr("chat template uses " + std::string(feature)), HasSubstr("not supported")))
        << source;
  }
}

TEST(JinjaTest, SyntaxErrorsNameTheLine) {
  const std::pair<const char*, const char*> kCases[] = {
      {"a\n\n{% if %}", "line 3"},
      {"a\n{{ x", "line 2: a tag has no end"},
      {"\n{# x", "line 2: a comment has no end"},
      {"{{ 'x }}", "a string has no end"},
      {"{{ 'x\\", "a string has no end"},
      {"{{ (1] }}", "unexpected ']'"},
      {"{{ 1 ] }}", "unexpected ']'"},
      {"{{ a ! b }}", "unexpected character '!'"},
      {"{% break %}", "'break' outside of a loop"},
      {"{% for x in y %}{% macro m() %}{% continue %}{% endmacro %}{% endfor %}",
       "outside of a loop"},
      {"{% macro m(a=1, b) %}{% endmacro %}", "without a preset value behind"},
      {"{{ f(a=1, 2) }}", "an argument without a name behind"},
      {"{% call x %}{% endcall %}", "expected a call"},
      {"{% set a, b %}{% endset %}", "expected '='"},
      {"{{ é }}", "unexpected character 'é'"},
      {"{{ a b }}", "expected }}, found 'b'"},
      {"{{ }}", "expected an expression, found }}"},
      {"{{ a. }}", "a name behind '.'"},
      {"{{ a| }}", "a filter's name"},
      {"{{ a is }}", "a test's name"},
      {"{{ a is none is none }}", "tests can't be chained"},
      {"{{ 99999999999999999999 }}", "a number is too large"},
      {"{{ '\\ud800' }}", "bad escape \\u"},
      {"{{ '\\xg' }}", "bad escape \\x"},
      {"{% if x %}", "expected {% endif %}"},
      {"{% if x if y %}{% endif %}", "expected %}, found 'if'"},
      {"{% if x %}{% endfor %}", "expected {% endif %}"},
      {"{% for x in y %}", "expected {% endfor %}"},
      {"{% for in in y %}{% endfor %}", "can't assign to 'in'"},
      {"{% for loop in y %}{% endfor %}", "can't assign to 'loop'"},
      {"{% endif %}", "'endif' without"},
      {"{% else %}", "'else' without"},
      {"{% 1 %}", "expected a statement"},
      {"{% if x %}{% else %}{% elif y %}{% endif %}", "expected {% endif %}"},
  };
  for (const auto& [source, part] : kCases) {
    const auto got = Parse(source);
    ASSERT_FALSE(got.ok()) << source;
    EXPECT_EQ(got.status().code(), absl::StatusCode::kInvalidArgument) << source << got.status();
    EXPECT_THAT(std::string(got.status().message()), HasSubstr(part)) << source;
  }
  EXPECT_THAT(std::string(Parse("ab\xff").status().message()), HasSubstr("byte offset 2"));
}

TEST(JinjaTest, ErrorsWhileRenderingNameTheCause) {
  const std::pair<const char*, const char*> kCases[] = {
      {"{{ raise_exception('roles must alternate: ' ~ 5) }}", "roles must alternate: 5"},
      {"{{ missing.x }}", "'missing' is undefined"},
      {"{{ missing + 1 }}", "'missing' is undefined"},
      {"\n{{ m.x.y }}", "line 2: 'dict object' has no attribute 'x'"},
      {"{{ 1 + 'a' }}", "'+' does not work between int and str"},
      {"{{ none < 1 }}", "between None and int"},
      {"{{ 1 // 0 }}", "division by zero"},
      {"{{ 9223372036854775807 + 1 }}", "larger than 2^63-1"},
      {"{{ (-9223372036854775807 - 1) // -1 }}", "larger than 2^63-1"},
      {"{{ m() }}", "not a function"},
      {"{{ 3|length }}", "has no length"},
      {"{{ [1]|map('upper')|length }}", "has no length"},
      {"{{ [1].append(2) }}", "access to attribute 'append' of 'list' object is unsafe"},
      {"{{ m.pop('x') }}", "access to attribute 'pop' of 'dict' object is unsafe"},
      {"{{ 'x'|nope }}", "no filter named 'nope'"},
      {"{{ 'x' is nope }}", "no test named 'nope'"},
      {"{% set a, b = [1] %}", "expected 2 values to unpack, got 1"},
      {"{% set m.x = 1 %}", "cannot assign attribute on non-namespace object"},
      {"{% macro f(a) %}{% endmacro %}{{ f(1, 2) }}", "takes not more than 1 arguments"},
      {"{% macro f(a) %}{% endmacro %}{{ f(b=2) }}", "takes no argument 'b'"},
      {"{{ range(1000000) }}", "a range is longer than 100000"},
      {"{{ undefined_value|tojson }}", "not JSON serializable"},
      {"{{ 'x'.split('') }}", "empty separator"},
      {"{{ [1, 'a']|sort }}", "does not work between"},
      {"{% for x in 3 %}{% endfor %}", "not iterable"},
  };
  Map variables;
  variables.entries.emplace_back("m", Value(Map()));
  for (const auto& [source, part] : kCases) {
    const auto got = RenderSource(source, variables);
    ASSERT_FALSE(got.ok()) << source << " gave " << *got;
    EXPECT_EQ(got.status().code(), absl::StatusCode::kInvalidArgument) << source << got.status();
    EXPECT_THAT(std::string(got.status().message()), HasSubstr(part)) << source;
  }
}

std::string Repeat(const std::string& text, int count) {
  std::string out;
  for (int i = 0; i < count; ++i) out += text;
  return out;
}

// Hostile templates end with an error, soon and without a deep stack.
TEST(JinjaTest, NestingIsBounded) {
  const std::string kDeep[] = {
      "{{ " + Repeat("(", 100000) + "1" + Repeat(")", 100000) + " }}",
      "{{ " + Repeat("[", 100000) + Repeat("]", 100000) + " }}",
      "{{ " + Repeat("not ", 100000) + "1 }}",
      "{{ 1" + Repeat(" - -1", 100000) + " }}",
      "{{ " + Repeat("- ", 100000) + "1 }}",
      "{{ x" + Repeat(".a", 100000) + " }}",
      "{{ x" + Repeat("[0]", 100000) + " }}",
      "{{ x" + Repeat("()", 100000) + " }}",
      "{{ " + Repeat("x(", 100000) + Repeat(")", 100000) + " }}",
      "{{ " + Repeat("{'a':", 100000) + "1" + Repeat("}", 100000) + " }}",
      "{{ x" + Repeat("[1:]", 100000) + " }}",
      "{{ x" + Repeat(" ** x", 100000) + " }}",
      Repeat("{% macro x() %}", 100000),
      Repeat("{% set x %}", 100000),
      "{{ x" + Repeat("|trim", 100000) + " }}",
      "{{ x" + Repeat(" and x", 100000) + " }}",
      "{{ x" + Repeat(" or x", 100000) + " }}",
      "{{ x" + Repeat(" ~ x", 100000) + " }}",
      "{{ x" + Repeat(" if x else x", 100000) + " }}",
      "{{ x" + Repeat(" if x", 100000) + " }}",
      Repeat("{% if x %}", 100000),
      Repeat("{% for x in y %}", 100000),
      "{% if x %}" + Repeat("{% elif x %}", 100000) + "{% endif %}",
  };
  for (const std::string& source : kDeep) {
    const auto got = Parse(source);
    ASSERT_FALSE(got.ok()) << source.substr(0, 30);
    EXPECT_EQ(got.status().code(), absl::StatusCode::kResourceExhausted) << source.substr(0, 30);
    EXPECT_THAT(std::string(got.status().message()), HasSubstr("the limit is 100"));
  }
  // Recursion while rendering, and values within values.
  const std::string kEndless[] = {
      "{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}",
      "{% macro m() %}{% for x in [1] %}{% if x %}{{ [m()] }}{% endif %}{% endfor %}{% endmacro %}"
      "{{ m() }}",
      "{% macro m() %}{{ caller() }}{% endmacro %}{% macro n() %}{% call m() %}{{ n() }}{% endcall "
      "%}"
      "{% endmacro %}{{ n() }}",
      "{% set n = namespace(x=[]) %}{% for i in range(1000) %}{% set n.x = [n.x] %}{% endfor %}",
      "{% set n = namespace(x={}) %}{% for i in range(1000) %}{% set n.x = {'a': n.x} %}{% endfor "
      "%}",
      "{% set n = namespace() %}{% set n.x = [n] %}",
  };
  for (const std::string& source : kEndless) {
    const auto got = RenderSource(source);
    ASSERT_FALSE(got.ok()) << source;
    EXPECT_EQ(got.status().code(), absl::StatusCode::kResourceExhausted) << got.status();
    EXPECT_THAT(std::string(got.status().message()), HasSubstr("too deeply, the limit is"));
  }
  // Within the limit all is well.
  EXPECT_TRUE(RenderSource("{{ " + Repeat("(", 90) + "1" + Repeat(")", 90) + " }}").ok());
  EXPECT_EQ(RenderSource("{{ 1" + Repeat(" + 1", 90) + " }}").value(), "91");
}

TEST(JinjaTest, WorkAndMemoryAreBounded) {
  const std::string many = "[" + Repeat("1,", 1000) + "]";
  const std::string loops = Repeat("{% for x in " + many + " %}", 4) + Repeat("{% endfor %}", 4);
  std::string doubling = "{% set x = 'x' %}", lists = "{% set x = [1] %}", compare = doubling;
  for (int i = 0; i < 64; ++i) {
    doubling += "{% set x = x ~ x %}";
    lists += "{% set x = x + x %}";
  }
  const std::string kCases[] = {
      loops,
      doubling,
      lists,
      "{% for x in " + many + " %}{{ big }}{% endfor %}",
      "{{ big in big ~ 'y' }}",
      "{{ 'x' * 9223372036854775807 }}",
      "{{ [1] * 9223372036854775807 }}",
      "{{ big|replace('a', big) }}",
      "{{ big.replace('', big) }}",
      "{{ big|list|length }}",
      "{{ 'a\nb'|indent(9223372036854775807) }}",
      "{{ big.split('a')|join(big) }}",
      "{{ [1, [2]]|tojson(indent=1000) ~ (big|tojson) * 20 }}",
      "{% for x in range(100000) %}{% for x in range(100000) %}{% endfor %}{% endfor %}",
      "{% for x in " + many + " %}{% if big == copy %}{% endif %}{% endfor %}"};
  Map variables;
  variables.entries.emplace_back("big", Value(std::string(20'000'000, 'a')));
  variables.entries.emplace_back("copy", Value(std::string(20'000'000, 'a')));
  for (const std::string& source : kCases) {
    const auto got = RenderSource(source, variables);
    ASSERT_FALSE(got.ok()) << source.substr(0, 40);
    EXPECT_EQ(got.status().code(), absl::StatusCode::kResourceExhausted) << got.status();
  }
  // A dict of many entries is searched in time that is counted.
  Limits small;
  small.steps = 10;
  EXPECT_THAT(
      std::string(RenderSource("{{ 1 + 1 + 1 + 1 + 1 + 1 }}", {}, small).status().message()),
      HasSubstr("the limit is 10"));
}

}  // namespace
}  // namespace isobit::jinja
