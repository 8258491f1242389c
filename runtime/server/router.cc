#include "runtime/server/router.h"

namespace isobit {

Router::Match Router::Find(std::string_view method, std::string_view path) const {
  Match match;
  for (const Route& route : routes_) {
    const bool names = route.path.size() > 1 && route.path.back() == '/';
    if (names ? path.size() <= route.path.size() || !path.starts_with(route.path)
              : path != route.path) {
      continue;
    }
    if (method == route.method) {
      match.route = &route;
      return match;
    }
    if (!match.allowed.empty()) match.allowed += ", ";
    match.allowed += route.method;
  }
  return match;
}

}  // namespace isobit
