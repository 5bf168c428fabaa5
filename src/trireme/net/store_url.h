// Where a store is, as text.
#pragma once
#include <filesystem>
#include <optional>
#include <string_view>

#include "trireme/net/address.h"

namespace trireme::net {

/// A URL of one of three forms, read and not yet opened:
///
///     env://                               the launcher's variables say
///     tcp://node7:29500?rank=0&world=4     one process hosts it: rank 0, or another
///     file:///shared/job-17/store          a folder
struct StoreUrl {
  enum class Kind { Env, Tcp, File };
  Kind kind = Kind::Env;
  Address address;
  std::filesystem::path path;
  /// Who opens it, where the URL tells.
  std::optional<int> rank;
  std::optional<int> world;
};

/// InvalidArgument with the URL and what is wrong with it.
StoreUrl parse_store_url(std::string_view url);

}  // namespace trireme::net
