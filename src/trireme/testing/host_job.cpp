#include "trireme/testing/host_job.h"

#include <atomic>
#include <filesystem>
#include <stdlib.h>

#include "trireme/comm/init.h"
#include "trireme/core/error.h"
#include "trireme/net/job_key.h"

namespace trireme::testing {
namespace {

// Jobs of one test may follow one another on the same hosts.
int next_port() {
  static std::atomic<int> port{29500};
  return port++;
}

}  // namespace

HostJob::HostJob(const Hosts& hosts, std::vector<int> ranks, HostJobOptions options)
    : hosts_(hosts),
      options_(std::move(options)),
      name_(fresh_job_name()),
      port_(next_port()) {
  for (size_t host = 0; host < ranks.size(); ++host)
    host_of_.insert(
        host_of_.end(), static_cast<size_t>(ranks[host]), static_cast<int>(host));
  TRIREME_ASSERT(static_cast<int>(ranks.size()) <= hosts.size());
  const auto key = net::JobKey::random();
  for (size_t host = 0; host < ranks.size(); ++host)
    key.write(key_file(static_cast<int>(host)));
}

int HostJob::leader(int host) const {
  int rank = 0;
  while (host_of(rank) != host)
    ++rank;
  return rank;
}

std::string HostJob::key_file(int host) const {
  return (folder_.path() / text("host", host, ".key")).string();
}

void HostJob::become(int rank) const {
  const int host = host_of(rank);
  hosts_.enter(host);
  int here = 0;
  for (const int other : host_of_)
    here += other == host;
  std::map<std::string, std::string> variables = {
      {"RANK", std::to_string(rank)},
      {"WORLD_SIZE", std::to_string(ranks())},
      {"LOCAL_RANK", std::to_string(rank - leader(host))},
      {"LOCAL_WORLD_SIZE", std::to_string(here)},
      {"GROUP_RANK", std::to_string(host)},
      {"MASTER_ADDR", Hosts::address(0)},
      {"MASTER_PORT", std::to_string(port_)},
      {"TORCHELASTIC_RUN_ID", name_},
      {"TRIREME_BACKEND", "tcp"},
      {"TRIREME_JOB_KEY_FILE", key_file(host)},
      {"TRIREME_TIMEOUT", std::to_string(options_.timeout.count())}};
  for (const auto& [name, value] : options_.variables)
    variables[name] = value;
  for (const auto& [name, value] : variables)
    ::setenv(name.c_str(), value.c_str(), 1);
}

void HostJob::start(
    Processes& processes, const std::function<int(int rank)>& body) const {
  for (int rank = 0; rank < ranks(); ++rank)
    processes.start([&, rank] {
      become(rank);
      return body(rank);
    });
}

void HostJob::run(const RankBody& body) const {
  Processes processes;
  start(processes, [&](int) {
    const comm::Group world = comm::init();
    comm::telling_peers(world, [&] { body(world); });
    return 0;
  });
  expect_good_ends(processes.wait(options_.timeout * 2));
}

}  // namespace trireme::testing
