#ifndef ISOBIT_RUNTIME_TEXT_JINJA_TEXT_FUNCTIONS_H_
#define ISOBIT_RUNTIME_TEXT_JINJA_TEXT_FUNCTIONS_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace isobit::jinja {

// What Python's str can do, for filters and methods. All text is valid UTF-8.

std::string ToLower(std::string_view text);
std::string ToUpper(std::string_view text);
// First letter upper case, the rest lower.
std::string Capitalize(std::string_view text);
// Jinja's |title and str.title(): each word capitalised. `any_sign`: a word begins behind
// everything that is no letter; otherwise behind white space, brackets and hyphens.
std::string ToTitle(std::string_view text, bool any_sign);

// &, <, >, " and ' as HTML writes them.
std::string EscapeHtml(std::string_view text);

// Without characters of `chars` at the ends; white space if `chars` is null.
std::string_view Strip(std::string_view text, const std::string* chars, bool left, bool right);

// At white space, at most `most` times (-1: no limit), from the left or from the right.
std::vector<std::string> SplitWhite(std::string_view text, int64_t most, bool from_right);
// At a separator, which is not empty.
std::vector<std::string> SplitAt(std::string_view text, std::string_view separator, int64_t most,
                                 bool from_right);
// str.splitlines().
std::vector<std::string> SplitLines(std::string_view text, bool keep_ends);

// At most `most` occurrences (-1: all); an empty `from` stands between all characters.
std::string Replace(std::string_view text, std::string_view from, std::string_view to,
                    int64_t most);

}  // namespace isobit::jinja

#endif  // ISOBIT_RUNTIME_TEXT_JINJA_TEXT_FUNCTIONS_H_
