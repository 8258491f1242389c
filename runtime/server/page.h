#ifndef ISOBIT_RUNTIME_SERVER_PAGE_H_
#define ISOBIT_RUNTIME_SERVER_PAGE_H_

#include <string_view>

namespace isobit {

// The page at /: page.html, whole.
extern const std::string_view kPage;

}  // namespace isobit

#endif  // ISOBIT_RUNTIME_SERVER_PAGE_H_
