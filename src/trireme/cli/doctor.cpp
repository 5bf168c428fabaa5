#include "trireme/cli/doctor.h"

#include <algorithm>
#include <dlfcn.h>
#include <iostream>

#include <ATen/Context.h>
#include <ATen/Parallel.h>
#include <ATen/Version.h>
#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>
#include <torch/version.h>

#include "trireme/cli/output.h"
#include "trireme/comm/backend.h"
#include "trireme/comm/flight_report.h"
#include "trireme/comm/reduce_kernel.h"
#include "trireme/core/error.h"
#include "trireme/core/escape.h"
#include "trireme/version.h"

namespace trireme::cli {
namespace {

using Json = nlohmann::ordered_json;

// "2.13.0" of "…, TORCH_VERSION=2.13.0, USE_CUDA=OFF, …".
std::string setting(const std::string& config, const std::string& name) {
  const size_t at = config.find(text(name, "="));
  if (at == std::string::npos)
    return "unknown";
  const size_t begin = at + name.size() + 1;
  return config.substr(begin, config.find_first_of(", \n", begin) - begin);
}

// The file that a function of libtorch comes from.
std::string library_of(const void* function) {
  Dl_info info{};
  if (::dladdr(function, &info) == 0 || info.dli_fname == nullptr)
    return "unknown";
  return info.dli_fname;
}

std::vector<AbsentBackend> absent_backends(const std::vector<std::string>& built) {
  const std::string not_yet = text("not in version ", kVersion, " of Trireme; ");
  std::vector<AbsentBackend> absent{
      {"tcp", text(not_yet, "without it all ranks must be on one host")},
      {"mpi", text(not_yet, "jobs of mpirun on one host work with shm")},
      {"nccl", text(not_yet, "without it tensors must be on the CPU")}};
  std::erase_if(absent, [&built](const AbsentBackend& one) {
    return std::find(built.begin(), built.end(), one.name) != built.end();
  });
  return absent;
}

std::string purpose(const std::string& backend) {
  return backend == "none"  ? " (one rank)"
         : backend == "shm" ? " (processes of one host)"
                            : "";
}

std::string cuda_text(const TorchFacts& facts) {
  if (!facts.cuda_built)
    return "not in this libtorch";
  return facts.cuda_usable ? "in this libtorch, and usable"
                           : "in this libtorch, but not usable here";
}

void print_flight(const std::string& folder, bool json) {
  const auto records = comm::load_flight(folder);
  const comm::FlightReport report = comm::report_flight(records);
  if (!json) {
    std::cout << comm::to_text(report);
    return;
  }
  const Json out = {
      {"ranks", records.front().size},
      {"records", records.size()},
      {"notes", report.notes},
      {"findings", report.findings}};
  std::cout << out.dump(2, ' ', false, Json::error_handler_t::replace) << "\n";
}

}  // namespace

TorchFacts gather_torch_facts() {
  const std::string config = at::show_config();
  const std::string cuda = setting(config, "USE_CUDA");
  TorchFacts facts{
      .version = setting(config, "TORCH_VERSION"),
      .compiled_version = TORCH_VERSION,
      .library = library_of(reinterpret_cast<const void*>(&at::show_config)),
      .threads = at::get_num_threads(),
      .interop_threads = static_cast<int>(at::get_num_interop_threads()),
      .cuda_built = cuda == "ON" || cuda == "1",
      .cuda_usable = at::hasCUDA(),
      .backends = comm::backends(),
      .kernels = comm::to_string(comm::best_isa())};
  facts.absent = absent_backends(facts.backends);
  return facts;
}

std::string to_text(const TorchFacts& facts) {
  std::string built;
  for (const std::string& name : facts.backends)
    built += text(name, purpose(name), ", ");
  std::string out =
      labelled("libtorch", text(facts.version, ", ", escaped(facts.library)));
  // The headers may say 2.13.0+cpu where the library says 2.13.0.
  if (!facts.compiled_version.starts_with(facts.version))
    out += labelled("", text("but Trireme was compiled for ", facts.compiled_version));
  out += labelled(
      "threads",
      text(
          facts.threads,
          " within an operation (OMP_NUM_THREADS), ",
          facts.interop_threads,
          " between operations"));
  out += labelled("CUDA", cuda_text(facts));
  out += labelled("backends", text(built, "local (threads, by run_local())"));
  for (const AbsentBackend& one : facts.absent)
    out += labelled("", text("no ", one.name, ": ", one.advice));
  return out + labelled("reductions", text(facts.kernels, " kernels"));
}

std::string to_json(const TorchFacts& facts) {
  Json absent = Json::object();
  for (const AbsentBackend& one : facts.absent)
    absent[one.name] = one.advice;
  const Json out = {
      {"libtorch", facts.version},
      {"compiled_for", facts.compiled_version},
      {"library", facts.library},
      {"threads", facts.threads},
      {"interop_threads", facts.interop_threads},
      {"cuda_built", facts.cuda_built},
      {"cuda_usable", facts.cuda_usable},
      {"backends", facts.backends},
      {"absent_backends", absent},
      {"reduction_kernels", facts.kernels}};
  return out.dump(-1, ' ', false, Json::error_handler_t::replace);
}

void add_doctor(CLI::App& app, int& exit_code) {
  struct Arguments {
    bool json = false;
    std::string flight;
  };
  auto arguments = std::make_shared<Arguments>();
  CLI::App* sub =
      app.add_subcommand("doctor", "Report what libtorch and this build have");
  sub->footer("Example:\n  trireme doctor --flight DIR");
  sub->add_flag("--json", arguments->json, "Print one JSON object");
  const CLI::Option* flight =
      sub->add_option(
             "--flight", arguments->flight, "Compare the flight records in a folder")
          ->option_text("DIR");
  sub->callback([arguments, flight, &exit_code] {
    if (flight->count() > 0)
      print_flight(arguments->flight, arguments->json);
    else if (arguments->json)
      std::cout << to_json(gather_torch_facts()) << "\n";
    else
      std::cout << to_text(gather_torch_facts());
    exit_code = 0;
  });
}

}  // namespace trireme::cli
