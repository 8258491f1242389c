// The page that describes receipts names every field that a receipt has, and no other.

#include <gtest/gtest.h>

#include <fstream>
#include <set>
#include <sstream>
#include <string>

#include "nlohmann/json.hpp"
#include "runtime/receipt/receipt.h"

namespace isobit {
namespace {

using nlohmann::json;

std::string Page() {
  std::ifstream file(ISOBIT_SOURCE_DIR "/runtime/receipt/format.md");
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

// First columns of tables: "| `field` |".
std::set<std::string> FieldsInTables(const std::string& page) {
  std::set<std::string> fields;
  std::istringstream lines(page);
  for (std::string line; std::getline(lines, line);) {
    if (!line.starts_with("| `") || line.find("` |") == std::string::npos) continue;
    const std::string field = line.substr(3, line.find('`', 3) - 3);
    if (field.find(' ') == std::string::npos) fields.insert(field);
  }
  return fields;
}

json Example() {
  Receipt receipt;
  receipt.completion.prompt_token_ids = {1};
  Choice choice;
  choice.token_ids = {2};
  choice.logprobs = {{2, -0.5f, {}}};
  receipt.completion.choices = {choice};
  return json::parse(ReceiptToJson(receipt));
}

TEST(ReceiptFormat, ThePageNamesEveryField) {
  const std::string page = Page();
  ASSERT_FALSE(page.empty());
  std::set<std::string> expected = {"CheckReplayable"};  // of the table of checks
  const json example = Example();
  for (const auto& [name, value] : example.items()) expected.insert(name);
  for (const auto& [name, value] : example["choices"][0].items()) expected.insert(name);
  EXPECT_EQ(FieldsInTables(page), expected);
  for (const auto& [name, value] : example["model"].items()) {
    EXPECT_NE(page.find("`" + name + "`"), std::string::npos) << name;
  }
  // In the order in which they are written.
  size_t at = page.find("`sampling` holds");
  const auto ordered = nlohmann::ordered_json::parse(ReceiptToJson(Receipt{}));
  for (const auto& [name, value] : ordered["sampling"].items()) {
    const size_t next = page.find("`" + name + "`", at);
    ASSERT_NE(next, std::string::npos) << name;
    at = next;
  }
}

TEST(ReceiptFormat, ThePageIsOfThisVersion) {
  const std::string title =
      "# Receipts, version " + std::to_string(Example()["version"].get<int>()) + "\n";
  EXPECT_TRUE(Page().starts_with(title));
}

}  // namespace
}  // namespace isobit
