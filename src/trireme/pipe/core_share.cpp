#include "trireme/pipe/core_share.h"

#include <algorithm>
#include <limits>
#include <map>
#include <set>

#include "trireme/core/machine.h"
#include "trireme/core/proc_text.h"
#include "trireme/pipe/gather_rows.h"

namespace trireme::pipe {
namespace {

/// A number for the kernel that runs here: containers of one host have the same.
int64_t own_host() {
  const auto boot = read_text_file("/proc/sys/kernel/random/boot_id");
  uint64_t hash = 0xCBF29CE484222325U;
  for (const char letter : boot.value_or(""))
    hash = (hash ^ static_cast<unsigned char>(letter)) * 0x100000001B3U;
  return static_cast<int64_t>(hash);
}

}  // namespace

RankCores own_cores() {
  RankCores mine{.host = own_host(), .cpus = allowed_cpus()};
  // A quota may allow less than all of them at a time.
  mine.cpus.resize(std::min(mine.cpus.size(), static_cast<size_t>(available_cores())));
  return mine;
}

std::vector<RankCores> gather_cores(const comm::Group& group, const RankCores& mine) {
  std::vector<int64_t> row{mine.host};
  row.insert(row.end(), mine.cpus.begin(), mine.cpus.end());
  std::vector<RankCores> all;
  for (const std::vector<int64_t>& theirs : gather_rows(group, row)) {
    RankCores& one = all.emplace_back(RankCores{.host = theirs[0]});
    for (size_t i = 1; i < theirs.size(); ++i)
      one.cpus.push_back(static_cast<int>(theirs[i]));
  }
  return all;
}

double cores_per_rank(const std::vector<RankCores>& ranks) {
  struct Host {
    std::set<int> cpus;
    int ranks = 0;
  };
  std::map<int64_t, Host> hosts;
  for (const RankCores& rank : ranks) {
    Host& host = hosts[rank.host];
    host.cpus.insert(rank.cpus.begin(), rank.cpus.end());
    ++host.ranks;
  }
  double least = std::numeric_limits<double>::infinity();
  for (const auto& [number, host] : hosts)
    least = std::min(least, static_cast<double>(host.cpus.size()) / host.ranks);
  return least;
}

}  // namespace trireme::pipe
