#ifndef ISOBIT_RUNTIME_SERVER_ROUTER_H_
#define ISOBIT_RUNTIME_SERVER_ROUTER_H_

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/server/exchange.h"

namespace isobit {

// Called on a worker thread.
using Handler = std::function<void(std::shared_ptr<Exchange>)>;

struct Route {
  std::string method;
  std::string path;   // ends in '/' if what follows is a name
  bool open = false;  // needs no API key
  // The handler waits for other requests, and leaves the workers to them.
  bool waits = false;
  Handler handler;
};

// Who answers what. Immutable once the server runs.
class Router {
 public:
  void Add(Route route) { routes_.push_back(std::move(route)); }

  struct Match {
    const Route* route = nullptr;
    std::string allowed;  // methods, if the path is known and the method is not
  };
  Match Find(std::string_view method, std::string_view path) const;

 private:
  std::vector<Route> routes_;
};

}  // namespace isobit

#endif  // ISOBIT_RUNTIME_SERVER_ROUTER_H_
