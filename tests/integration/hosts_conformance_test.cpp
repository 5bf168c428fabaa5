// The conformance suite on real hosts: processes with networks of their own, shared
// memory inside a host, tcp under TLS between hosts.
#include "hosts_case.h"
#include "trireme/testing/conformance.h"

namespace trireme::comm {
namespace {

void add_hosts_suite(const std::string& name, const std::vector<int>& ranks) {
  testing::register_conformance(
      {.suite = "ConformanceHosts" + name + "Procs",
       .run =
           [ranks](int, const testing::RankBody& body) {
             if (const auto why = Hosts::missing(); !why.empty())
               GTEST_SKIP() << why;
             HostJob(two_hosts(), ranks).run(body);
           },
       .sizes = {4}});
}

const bool hosts_registered = [] {
  add_hosts_suite("22", {2, 2});
  add_hosts_suite("31", {3, 1});
  return true;
}();

}  // namespace
}  // namespace trireme::comm
