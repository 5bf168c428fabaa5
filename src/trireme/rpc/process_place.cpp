#include "trireme/rpc/process_place.h"

#include <sys/stat.h>
#include <unistd.h>

#include "trireme/core/machine.h"
#include "trireme/core/segment_file.h"

namespace trireme::rpc {
namespace {

std::uint64_t own_network_namespace() {
  struct stat status {};
  return ::stat("/proc/self/ns/net", &status) == 0 ? status.st_ino : 0;
}

bool share_kernel(const ProcessPlace& one, const ProcessPlace& other) {
  return one.kernel == other.kernel && one.user == other.user;
}

}  // namespace

ProcessPlace ProcessPlace::of_this_process() {
  return {
      .kernel = kernel_number(),
      .network = own_network_namespace(),
      .processes = own_pid_namespace(),
      .user = ::geteuid(),
      .pid = ::getpid(),
      .start_time = process_start_time(::getpid())};
}

bool share_sockets(const ProcessPlace& one, const ProcessPlace& other) {
  return share_kernel(one, other) && one.network == other.network && one.network != 0;
}

bool share_processes(const ProcessPlace& one, const ProcessPlace& other) {
  return share_kernel(one, other) && one.processes == other.processes &&
         one.processes != 0;
}

bool has_ended(const ProcessPlace& process, const ProcessPlace& here) {
  return share_processes(process, here) &&
         process_ended(process.pid, process.start_time);
}

void write_place(net::ByteWriter& out, const ProcessPlace& place) {
  out.i64(place.kernel)
      .u64(place.network)
      .u64(place.processes)
      .u32(place.user)
      .u32(static_cast<std::uint32_t>(place.pid))
      .u64(place.start_time);
}

ProcessPlace read_place(net::ByteReader& in) {
  ProcessPlace place;
  place.kernel = in.i64();
  place.network = in.u64();
  place.processes = in.u64();
  place.user = in.u32();
  place.pid = static_cast<std::int32_t>(in.u32());
  place.start_time = in.u64();
  return place;
}

}  // namespace trireme::rpc
