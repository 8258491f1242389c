#ifndef ISOBIT_TESTS_TOOLS_ISOBIT_NGINX_CONFIG_H_
#define ISOBIT_TESTS_TOOLS_ISOBIT_NGINX_CONFIG_H_

#include <string>

#include "absl/strings/str_cat.h"

namespace isobit {

// A configuration for nginx with what belongs into its http block. It leaves files in `folder`
// (which ends in a slash) alone, not where the system's nginx would have them.
inline std::string NginxConfig(const std::string& folder, const std::string& http) {
  std::string config = absl::StrCat("daemon off;\npid ", folder,
                                    "nginx.pid;\nerror_log stderr;\nevents {}\nhttp {\n"
                                    "access_log off;\n");
  for (const char* const kind : {"client_body", "proxy", "fastcgi", "uwsgi", "scgi"}) {
    absl::StrAppend(&config, kind, "_temp_path ", folder, kind, ";\n");
  }
  return absl::StrCat(config, http, "}\n");
}

}  // namespace isobit

#endif  // ISOBIT_TESTS_TOOLS_ISOBIT_NGINX_CONFIG_H_
