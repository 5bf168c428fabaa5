// Any text in a variable or a file of /proc: an answer or InvalidArgument, and never a
// control character in what is printed.
#include <cstdint>
#include <cstdlib>
#include <string>

#include "trireme/core/environment.h"
#include "trireme/core/error.h"
#include "trireme/core/escape.h"
#include "trireme/core/launch_env.h"
#include "trireme/core/log.h"
#include "trireme/core/proc_text.h"
#include "trireme/core/slurm.h"

namespace {

void must_be_printable(const std::string& text) {
  for (const unsigned char c : text)
    if (c < 0x20 || c == 0x7f)
      std::abort();
}

template <class Body>
void try_it(const Body& body) {
  try {
    body();
  } catch (const trireme::InvalidArgument& error) {
    must_be_printable(error.what());
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace trireme;
  const std::string text(reinterpret_cast<const char*>(data), size);
  must_be_printable(escaped(text));
  must_be_printable(in_quotes(text));
  try_it([&] { parse_log_levels(text); });
  try_it([&] { parse_slurm_tasks("SLURM_TASKS_PER_NODE", text); });
  parse_cpu_model(text);
  parse_memory_total(text);
  parse_process_stat(text);
  parse_kib(text, "VmHWM:");
  parse_cpu_list(text);
  parse_cpu_max(text);
  parse_cgroup_path(text, "cpu");
  const std::string usable = text.substr(0, text.find('\0'));
  try_it([&] {
    read_launch_env(
        Environment{{"RANK", usable}, {"WORLD_SIZE", "4"}, {"MASTER_PORT", usable}});
  });
  try_it([&] { read_timeout(Environment{{"TRIREME_TIMEOUT", usable}}); });
  return 0;
}
