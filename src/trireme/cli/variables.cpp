#include "trireme/cli/variables.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <initializer_list>
#include <string_view>

#include "trireme/core/error.h"
#include "trireme/core/launch_env.h"
#include "trireme/core/log.h"
#include "trireme/core/nearest.h"
#include "trireme/net/store_url.h"
#include "trireme/version.h"

namespace trireme::cli {
namespace {

constexpr std::string_view kPrefix = "TRIREME_";

struct KnownVariable {
  const char* name;
  const char* reader;
  /// Throws what the reader would; null where any text will do.
  void (*check)(const Environment& env) = nullptr;
};

// Every TRIREME_ variable that something reads. Who adds one adds it here.
constexpr std::array kKnown = {
    KnownVariable{
        "TRIREME_BACKEND", "comm::init(): the backend in place of the one that fits"},
    KnownVariable{
        "TRIREME_CA_FILE", "net: the authority whose certificates connections take"},
    KnownVariable{"TRIREME_CERTIFICATE_FILE", "net: the certificate of this worker"},
    KnownVariable{
        "TRIREME_FLIGHT_DIR",
        "comm: the folder for flight records; set to nothing, none are written"},
    KnownVariable{"TRIREME_JOB_KEY", "net: the key that all workers of a job share"},
    KnownVariable{
        "TRIREME_JOB_KEY_FILE", "net: the file of the key that all workers share"},
    KnownVariable{
        "TRIREME_LOG",
        "the log: levels, in general and by module",
        [](const Environment& env) { parse_log_levels(*env.find("TRIREME_LOG")); }},
    KnownVariable{
        "TRIREME_PEERS",
        "benches beside PyTorch: the folder of its programs (bench/peers)"},
    KnownVariable{
        "TRIREME_PIP_ARGS",
        "the script ./trireme: more arguments for pip install torch"},
    KnownVariable{
        "TRIREME_PRIVATE_KEY_FILE", "net: the key of this worker's certificate"},
    KnownVariable{
        "TRIREME_PYTHON", "benches and tests beside PyTorch: the python that has it"},
    KnownVariable{
        "TRIREME_RANK_ROLL",
        "comm::init(): where the launcher tells which ranks have ended; it sets it"},
    KnownVariable{
        "TRIREME_SECURITY",
        "net: insecure-loopback lets connections on this machine go unprotected"},
    KnownVariable{"TRIREME_SSH", "trireme run --hosts: the command in place of ssh"},
    KnownVariable{
        "TRIREME_STORE",
        "net: the URL of the store that the launcher hosts; it sets it",
        [](const Environment& env) {
          net::parse_store_url(*env.find("TRIREME_STORE"));
        }},
    KnownVariable{
        "TRIREME_STORE_PORT",
        "net: the port of rank 0's store in place of MASTER_PORT",
        [](const Environment& env) { env.integer("TRIREME_STORE_PORT", 1, 65535); }},
    KnownVariable{
        "TRIREME_TEXT",
        "trireme train: the folder of the text that it trains on without data.path"},
    KnownVariable{
        "TRIREME_HEARTBEAT",
        "comm::init(): how long another host may be silent, in seconds",
        [](const Environment& env) { read_heartbeat(env); }},
    KnownVariable{
        "TRIREME_TIMEOUT",
        "comm::init(): the deadline of every call, in seconds",
        [](const Environment& env) { read_timeout(env); }},
    KnownVariable{"TRIREME_TORCH", "the script ./trireme: the folder of libtorch"},
};

bool is_secret(std::string name) {
  std::transform(name.begin(), name.end(), name.begin(), [](unsigned char c) {
    return static_cast<char>(std::toupper(c));
  });
  const std::array words = {"KEY", "SECRET", "TOKEN", "PASSWORD"};
  return std::any_of(words.begin(), words.end(), [&name](const char* word) {
    return name.find(word) != std::string::npos;
  });
}

std::string problem_of(const KnownVariable& variable, const Environment& env) {
  try {
    if (variable.check != nullptr)
      variable.check(env);
    return "";
  } catch (const InvalidArgument& error) {
    return error.what();
  }
}

void note_own(VariableNote& note, const Environment& env) {
  const auto known =
      std::find_if(kKnown.begin(), kKnown.end(), [&note](const auto& one) {
        return note.name == one.name;
      });
  if (known != kKnown.end()) {
    note.reader = known->reader;
    note.problem = problem_of(*known, env);
    return;
  }
  // Without what all have in common, which would make any two of them look alike.
  std::vector<std::string> names;
  for (const KnownVariable& one : kKnown)
    names.emplace_back(one.name + kPrefix.size());
  const std::string meant = nearest(note.name.substr(kPrefix.size()), names);
  note.reader = meant.empty() ? text("nobody in version ", kVersion)
                              : text("nobody; perhaps you mean ", kPrefix, meant);
}

}  // namespace

std::vector<VariableNote> note_variables(const Environment& env) {
  std::vector<VariableNote> notes;
  using Prefixes = std::initializer_list<std::string_view>;
  for (const auto prefix : Prefixes{kPrefix, "NCCL_", "GLOO_"})
    for (const auto& [name, value] : env.with_prefix(prefix)) {
      if (name == "TRIREME_CALLED_AS")
        continue;  // set by this program, not by a person
      VariableNote& note = notes.emplace_back(
          VariableNote{.name = name, .value = is_secret(name) ? kHidden : value});
      if (name.starts_with("NCCL_"))
        note.reader = "NCCL, once the nccl backend is built; not read now";
      else if (name.starts_with("GLOO_"))
        note.reader = "gloo inside PyTorch; Trireme does not read it";
      else
        note_own(note, env);
    }
  return notes;
}

}  // namespace trireme::cli
