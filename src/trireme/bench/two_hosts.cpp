#include "trireme/bench/two_hosts.h"

#include <unistd.h>

#include "trireme/core/error.h"
#include "trireme/launch/child.h"
#include "trireme/launch/program.h"

namespace trireme::bench {
namespace {

std::string address(int host) {
  return text("10.213.77.", host + 1);
}

void run_tool(const std::vector<std::string>& command) {
  const launch::ChildResult result = launch::run_child({.command = command});
  if (!result.ok())
    throw Error(text(
        "[bench] expected ",
        command[0],
        " to set up a network namespace, got ",
        launch::failure_text(result),
        "; leave out the cases of two hosts with --case"));
}

}  // namespace

std::string TwoHosts::missing(HostLink link) {
  if (::geteuid() != 0)
    return "two hosts are network namespaces, which only root can make; start the "
           "benchmark as root";
  const Environment here = Environment::of_process();
  for (const char* tool : {"ip", "tc"})
    try {
      if (tool[0] == 'i' || link == HostLink::Gigabit)
        launch::find_program(tool, here.find("PATH").value_or(""));
    } catch (const InvalidArgument&) {
      return text("there is no ", tool, " in PATH; install iproute2");
    }
  return {};
}

TwoHosts::TwoHosts(HostLink link)
    : name_(text(
          "trireme-bench-", ::getpid(), link == HostLink::Gigabit ? "-limited" : "")) {
  try {
    for (int i = 0; i < 2; ++i)
      run_tool({"ip", "netns", "add", host(i)});
    run_tool(
        {"ip",
         "-n",
         host(0),
         "link",
         "add",
         kInterface,
         "type",
         "veth",
         "peer",
         "name",
         kInterface,
         "netns",
         host(1)});
    for (int i = 0; i < 2; ++i) {
      run_tool(
          {"ip", "-n", host(i), "addr", "add", address(i) + "/24", "dev", kInterface});
      run_tool({"ip", "-n", host(i), "link", "set", "lo", "up"});
      run_tool({"ip", "-n", host(i), "link", "set", kInterface, "up"});
    }
    if (link == HostLink::Gigabit)
      limit();
  } catch (...) {
    remove();
    throw;
  }
}

TwoHosts::~TwoHosts() {
  remove();
}

// A burst is what passes unhindered: some of the kernel's packets of 64 KiB, so that
// its clock need not be finer than it is.
void TwoHosts::limit() const {
  for (int i = 0; i < 2; ++i)
    run_tool(
        {"tc",
         "-n",
         host(i),
         "qdisc",
         "add",
         "dev",
         kInterface,
         "root",
         "tbf",
         "rate",
         "1gbit",
         "burst",
         "512kb",
         "latency",
         "50ms"});
}

// The link goes with the first of its ends.
void TwoHosts::remove() const noexcept {
  for (int i = 0; i < 2; ++i) {
    try {
      launch::run_child({.command = {"ip", "netns", "delete", host(i)}});
    } catch (const std::exception&) {
      // Nothing more can be done about it here.
    }
  }
}

std::string TwoHosts::host(int number) const {
  return text(name_, "-", number);
}

std::vector<WorkerStart> TwoHosts::place(std::vector<WorkerStart> starts) const {
  const size_t ranks = starts.size() / 2;
  for (size_t rank = 0; rank < starts.size(); ++rank) {
    WorkerStart& one = starts[rank];
    const std::vector<std::string> enter{
        "ip", "netns", "exec", host(static_cast<int>(rank / ranks))};
    one.command.insert(one.command.begin(), enter.begin(), enter.end());
    one.variables["MASTER_ADDR"] = address(0);
    one.variables["LOCAL_RANK"] = text(rank % ranks);
    one.variables["LOCAL_WORLD_SIZE"] = text(ranks);
    one.variables["GROUP_RANK"] = text(rank / ranks);
  }
  return starts;
}

}  // namespace trireme::bench
