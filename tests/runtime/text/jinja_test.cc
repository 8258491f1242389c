#include <fstream>
#include <string>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "runtime/text/jinja/evaluator.h"
#include "runtime/text/jinja/parser.h"

namespace isobit::jinja {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

Value FromJson(const nlohmann::ordered_json& json) {
  if (json.is_null()) return Value();
  if (json.is_boolean()) return Value(json.get<bool>());
  if (json.is_number_integer()) return Value(json.get<int64_t>());
  if (json.is_string()) return Value(json.get<std::string>());
  if (json.is_array()) {
    List list;
    for (const auto& element : json) list.push_back(FromJson(element));
    return Value(std::move(list));
  }
  Map map;
  for (const auto& [key, value] : json.items()) map.entries.emplace_back(key, FromJson(value));
  return Value(std::move(map));
}

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
  const Value variables = FromJson(golden.at("variables"));
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
      {"{% macro m() %}{% endmacro %}", "'macro'"},
      {"{% block b %}{% endblock %}", "'block'"},
      {"{% include 'x' %}", "'include'"},
      {"{% raw %}{{ {% endraw %}", "'raw'"},
      {"{% filter upper %}x{% endfilter %}", "'filter'"},
      {"{% set x %}y{% endset %}", "'set ... endset'"},
      {"{% set ns.x = 1 %}", "'ns.'"},
      {"{% set a, b = 1, 2 %}", "'several targets'"},
      {"{% for k, v in x %}{% endfor %}", "'several targets'"},
      {"{% for k in x if k %}{% endfor %}", "'for ... if'"},
      {"{% for k in x recursive %}{% endfor %}", "'for ... recursive'"},
      {"{% for k in x %}{% break %}{% endfor %}", "'break'"},
      {"{% for k in 'text' %}{% endfor %}", "'for ... in str'"},
      {"{{ 1.5 }}", "'1.5'"},
      {"{{ 1e5 }}", "'1e5'"},
      {"{{ 0x1F }}", "'0x1F'"},
      {"{{ {'a': 1} }}", "'{...}'"},
      {"{{ (1, 2) }}", "'a tuple'"},
      {"{{ () }}", "'a tuple'"},
      {"{{ 1, 2 }}", "'a tuple'"},
      {"{{ x[1:] }}", "'a slice'"},
      {"{{ x[:1] }}", "'a slice'"},
      {"{{ 2 ** 3 }}", "'**'"},
      {"{{ 4 / 2 }}", "'/'"},
      {"{{ +1 }}", "'unary +'"},
      {"{{ 3 is divisibleby 3 }}", "'is divisibleby with an argument'"},
      {"{{ 'a' * 3 }}", "'str * int'"},
      {"{{ 'a%s' % 3 }}", "'str % int'"},
      {"{{ 'x'|upper }}", "'|upper'"},
      {"{{ 'x'|trim('x') }}", "'|trim(...)'"},
      {"{{ 'x' is mapping }}", "'is mapping'"},
      {"{{ 3 is divisibleby(3) }}", "'is divisibleby with an argument'"},
      {"{{ 'x'.strip() }}", "'.strip()'"},
      {"{{ 'x'.strip }}", "'str.strip'"},
      {"{{ range(3) }}", "'range()'"},
      {"{{ strftime_now('%d') }}", "'strftime_now()'"},
      {"{{ namespace is defined }}", "'namespace'"},
      {"{{ raise_exception(message='x') }}", "'message='"},
      {"{{ [1] }}", "'printing a list'"},
      {"{{ [1] < [2] }}", "'list < list'"},
      {"{{ [[1]] }}", "'a list of list'"},
      {"{% for x in [1] %}{{ loop.cycle }}{% endfor %}", "'loop.cycle'"},
      {"{% for x in [1] %}{{ loop['previtem'] }}{% endfor %}", "'loop.previtem'"},
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
      {"{{ é }}", "unexpected character 'é'"},
      {"{{ a b }}", "expected }}, found 'b'"},
      {"{{ }}", "expected an expression, found }}"},
      {"{{ a. }}", "a name behind '.'"},
      {"{{ a| }}", "a filter's name"},
      {"{{ a is }}", "a test's name"},
      {"{{ a is none is none }}", "tests can't be chained"},
      {"{{ 99999999999999999999 }}", "larger than 2^63-1"},
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
      "{% for x in " + many + " %}{% if big == copy %}{% endif %}{% endfor %}"};
  Map variables;
  variables.entries.emplace_back("big", Value(std::string(20'000'000, 'a')));
  variables.entries.emplace_back("copy", Value(std::string(20'000'000, 'a')));
  for (const std::string& source : kCases) {
    const auto got = RenderSource(source, variables);
    ASSERT_FALSE(got.ok()) << source.substr(0, 40);
    EXPECT_EQ(got.status().code(), absl::StatusCode::kResourceExhausted) << got.status();
  }
  Limits small;
  small.steps = 10;
  EXPECT_THAT(
      std::string(RenderSource("{{ 1 + 1 + 1 + 1 + 1 + 1 }}", {}, small).status().message()),
      HasSubstr("the limit is 10"));
}

}  // namespace
}  // namespace isobit::jinja
