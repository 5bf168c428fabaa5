#include "trireme/cli/doctor_front.h"

#include <chrono>
#include <iomanip>
#include <ostream>

#include <nlohmann/json.hpp>

#include "trireme/cli/output.h"
#include "trireme/cli/run_torch.h"
#include "trireme/core/error.h"
#include "trireme/core/escape.h"
#include "trireme/core/number_text.h"
#include "trireme/version.h"

namespace trireme::cli {
namespace {

using Json = nlohmann::ordered_json;

// Loading libtorch takes a second or two, from a cold disk many more.
constexpr std::chrono::seconds kTorchLimit{60};

std::string shared_memory_text(const DoctorFacts& facts) {
  if (!facts.shared_memory)
    return labelled("shared memory", facts.shared_memory_problem);
  std::string out = labelled(
      "shared memory",
      text(
          "/dev/shm, ",
          bytes_text(facts.shared_memory->total_bytes),
          ", ",
          bytes_text(facts.shared_memory->free_bytes),
          " of it free; ",
          facts.left.empty() ? "nothing of Trireme's is there"
                             : "Trireme's are there:"));
  for (const LeftSegment& one : facts.left)
    out += labelled(
        "",
        text(escaped(one.name), ", ", bytes_text(one.bytes), ", owner ", one.owner));
  if (!facts.left.empty())
    out += labelled(
        "",
        "(each is of a job whose ranks still meet, or that died meeting; the owner's "
        "next "
        "job removes the dead)");
  return out;
}

std::string gpu_text(const GpuFacts& gpus) {
  if (gpus.devices.empty())
    return labelled(
        "GPU",
        gpus.driver.empty() ? "none (no /dev/nvidia0 …)"
                            : "none (a driver, but no /dev/nvidia0 …)");
  std::string out;
  for (size_t i = 0; i < gpus.devices.size(); ++i)
    out += labelled(
        i == 0 ? "GPU" : "",
        gpus.models.size() == gpus.devices.size()
            ? text(gpus.devices[i], ", ", escaped(gpus.models[i]))
            : gpus.devices[i]);
  return out +
         labelled("GPU driver", gpus.driver.empty() ? "unknown" : escaped(gpus.driver));
}

std::string launch_text(const DoctorFacts& facts) {
  if (!facts.launch)
    return labelled("launcher", text("wrong: ", facts.launch_problem));
  const LaunchEnv& env = *facts.launch;
  if (env.launcher == Launcher::None)
    return labelled("launcher", "none; a program started so is a world of one rank");
  return labelled(
      "launcher",
      text(
          to_string(env.launcher),
          ": rank ",
          env.rank,
          " of ",
          env.world_size,
          ", on this host ",
          env.local_rank,
          " of ",
          env.local_world_size,
          env.has_master()
              ? text(", meeting at ", escaped(env.master_addr), ":", env.master_port)
              : "",
          env.run_id.empty() ? "" : text(", run ", escaped(env.run_id)),
          env.restart_count > 0 ? text(", restart ", env.restart_count) : ""));
}

std::string variables_text(const std::vector<VariableNote>& variables) {
  if (variables.empty())
    return labelled("variables", "no TRIREME_*, NCCL_* or GLOO_* is set");
  std::string out;
  for (const VariableNote& one : variables) {
    out += labelled(
        out.empty() ? "variables" : "",
        text(escaped(one.name), "=", escaped(one.value)));
    out += labelled("", text("  read by ", one.reader));
    if (!one.problem.empty())
      out += labelled("", text("  wrong: ", one.problem));
  }
  return out;
}

Json shared_memory_json(const DoctorFacts& facts) {
  Json out = {{"folder", "/dev/shm"}};
  if (facts.shared_memory) {
    out["total_bytes"] = facts.shared_memory->total_bytes;
    out["free_bytes"] = facts.shared_memory->free_bytes;
  } else {
    out["problem"] = facts.shared_memory_problem;
  }
  out["left"] = Json::array();
  for (const LeftSegment& one : facts.left)
    out["left"].push_back(
        {{"name", one.name}, {"owner", one.owner}, {"bytes", one.bytes}});
  return out;
}

Json launch_json(const DoctorFacts& facts) {
  if (!facts.launch)
    return {{"problem", facts.launch_problem}};
  const LaunchEnv& env = *facts.launch;
  return {
      {"name", to_string(env.launcher)},
      {"rank", env.rank},
      {"world_size", env.world_size},
      {"local_rank", env.local_rank},
      {"local_world_size", env.local_world_size},
      {"master_addr", env.master_addr},
      {"master_port", env.master_port},
      {"run_id", env.run_id},
      {"restart_count", env.restart_count}};
}

Json variables_json(const std::vector<VariableNote>& variables) {
  Json out = Json::array();
  for (const VariableNote& one : variables) {
    out.push_back({{"name", one.name}, {"value", one.value}, {"reader", one.reader}});
    if (!one.problem.empty())
      out.back()["problem"] = one.problem;
  }
  return out;
}

// The part of trireme-torch; what went wrong with it goes to `problem`.
std::string ask_torch(const DoctorFrontOptions& options, std::string& problem) try {
  std::vector<std::string> arguments{"doctor"};
  if (options.json)
    arguments.emplace_back("--json");
  const launch::ChildResult child =
      run_torch(options.torch_program, arguments, kTorchLimit);
  if (!child.ok())
    problem = text("trireme-torch failed: ", failure_text(child));
  else if (options.json && !Json::parse(child.out, nullptr, false).is_object())
    problem = "trireme-torch printed something that is no JSON object";
  return child.out;
} catch (const Error& error) {
  problem = error.what();
  return "";
}

}  // namespace

DoctorFacts gather_facts(const Environment& env) {
  DoctorFacts facts{
      .machine = describe_machine(),
      .load = load_average(),
      .left = left_segments(),
      .gpus = read_gpus(),
      .variables = note_variables(env)};
  try {
    facts.shared_memory = shared_memory_limits();
  } catch (const Error& error) {
    facts.shared_memory_problem = error.what();
  }
  try {
    facts.launch = read_launch_env(env);
  } catch (const Error& error) {
    facts.launch_problem = error.what();
  }
  return facts;
}

std::string to_text(const DoctorFacts& facts) {
  return text(
      labelled("Trireme", std::string(kVersion)),
      labelled(
          "machine",
          text(
              to_string(facts.machine),
              "; load ",
              std::fixed,
              std::setprecision(2),
              facts.load,
              " over the last minute")),
      shared_memory_text(facts),
      gpu_text(facts.gpus),
      launch_text(facts),
      variables_text(facts.variables));
}

std::string to_json(
    const DoctorFacts& facts,
    const std::string& torch,
    const std::string& torch_problem) {
  Json out = {
      {"version", kVersion},
      {"machine",
       {{"cpu", facts.machine.cpu},
        {"cores", facts.machine.cores},
        {"memory_bytes", facts.machine.memory_bytes},
        {"load", facts.load}}},
      {"shared_memory", shared_memory_json(facts)},
      {"gpu",
       {{"devices", facts.gpus.devices},
        {"models", facts.gpus.models},
        {"driver", facts.gpus.driver}}},
      {"launcher", launch_json(facts)},
      {"variables", variables_json(facts.variables)}};
  if (torch_problem.empty())
    out["torch"] = Json::parse(torch);
  else
    out["torch"] = {{"problem", torch_problem}};
  return out.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

int doctor_front(
    const DoctorFrontOptions& options, std::ostream& out, std::ostream& err) {
  const DoctorFacts facts = gather_facts(Environment::of_process());
  // Printed before libtorch is tried: who waits for it, or loses it, has this already.
  if (!options.json)
    out << to_text(facts) << std::flush;
  std::string problem;
  const std::string torch = ask_torch(options, problem);
  if (options.json)
    out << to_json(facts, torch, problem);
  else
    out << torch;
  if (problem.empty())
    return 0;
  err << "trireme: " << problem << "\n";
  return 1;
}

}  // namespace trireme::cli
