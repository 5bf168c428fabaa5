#include "trireme/cli/keys.h"

#include <algorithm>
#include <filesystem>
#include <ostream>

#include <CLI/CLI.hpp>

#include "trireme/cli/output.h"
#include "trireme/core/error.h"
#include "trireme/core/escape.h"
#include "trireme/net/certificates.h"
#include "trireme/net/job_key.h"

namespace trireme::cli {
namespace {

namespace fs = std::filesystem;

// A path as a shell takes it, from wherever it is pasted.
std::string shell_path(const fs::path& path) {
  const std::string full = fs::absolute(path).lexically_normal().string();
  const bool plain = std::all_of(full.begin(), full.end(), [](unsigned char c) {
    return std::isalnum(c) ||
           std::string_view("/._-+:@%,=").find(static_cast<char>(c)) !=
               std::string_view::npos;
  });
  if (plain)
    return full;
  std::string quoted = "'";
  for (const char c : full)
    quoted += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return escaped(quoted + "'");
}

CLI::Validator not_nothing(const std::string& what) {
  return CLI::Validator(
      [what](const std::string& word) -> std::string {
        return word.empty() ? text("expected ", what, ", got \"\"") : "";
      },
      "");
}

void add_days(CLI::App& word, int& days) {
  word.add_option("--days", days, "For how many days it is valid")
      ->check(CLI::Range(1, 36500).description(""))
      ->type_name("N")
      ->capture_default_str();
}

void add_job(CLI::App& keys, KeysArguments& arguments) {
  CLI::App* job =
      keys.add_subcommand("job", "Make a key that all workers of a job share");
  job->add_option("FILE", arguments.file, "The new file; one that is there is kept")
      ->check(not_nothing("the name of a file"))
      ->type_name("")
      ->required();
  job->footer(
      "Whoever has the key belongs to the job: it proves membership, not names. Both\n"
      "sides of a connection prove that they have it, and agree on fresh keys (TLS "
      "1.3).\n"
      "\n"
      "Example:\n"
      "  trireme keys job job.key");
}

void add_ca(CLI::App& keys, KeysArguments& arguments) {
  CLI::App* ca = keys.add_subcommand(
      "ca", "Make an authority, which gives each worker a certificate of its own");
  ca->add_option("FOLDER", arguments.authority, "Where it goes; made if need be")
      ->check(not_nothing("the name of a folder"))
      ->type_name("")
      ->required();
  add_days(*ca, arguments.authority_days);
  ca->footer(
      "Writes ca.pem, which every worker gets, and ca.key, which stays here: whoever "
      "has\n"
      "that one can make workers.\n"
      "\n"
      "Example:\n"
      "  trireme keys ca keys");
}

void add_worker(CLI::App& keys, KeysArguments& arguments) {
  CLI::App* worker =
      keys.add_subcommand("worker", "Make the key and the certificate of one worker");
  worker
      ->add_option(
          "NAME",
          arguments.name,
          "The worker's name, as the job knows it: letters, digits, '.', '-' and '_'")
      ->type_name("")
      ->required();
  worker->add_option("--ca", arguments.authority, "The folder of the authority")
      ->check(not_nothing("the name of a folder"))
      ->type_name("FOLDER")
      ->required();
  worker
      ->add_option(
          "--out",
          arguments.output,
          "Where the three files go; if not given, the folder NAME beside the "
          "authority's "
          "files")
      ->check(not_nothing("the name of a folder"))
      ->type_name("FOLDER");
  add_days(*worker, arguments.worker_days);
  worker->footer(
      "Writes NAME.key, NAME.pem and a copy of ca.pem: all that this worker needs, and "
      "no\n"
      "other. With certificates a worker cannot take another one's name.\n"
      "\n"
      "Example:\n"
      "  trireme keys worker trainer0 --ca keys --out trainer0");
}

void make_job_key(const KeysArguments& arguments, std::ostream& out) {
  const net::JobKey key = net::JobKey::random();
  key.write(arguments.file);
  out << "wrote " << escaped(arguments.file) << ": a job key with fingerprint "
      << key.fingerprint()
      << "\nEach worker needs a copy of it, of mode 0600, and this variable:\n\n"
      << "  export TRIREME_JOB_KEY_FILE=" << shell_path(arguments.file) << "\n";
}

void make_ca(const KeysArguments& arguments, std::ostream& out) {
  const fs::path folder = arguments.authority;
  net::make_authority(folder, {.to_days = arguments.authority_days});
  out << "wrote " << escaped((folder / "ca.pem").string())
      << ": the authority, for every worker\n"
      << "wrote " << escaped((folder / "ca.key").string())
      << ": its key, which stays here and goes to nobody\nNow make the workers:\n\n"
      << "  trireme keys worker NAME --ca " << shell_path(folder) << "\n";
}

void make_worker(const KeysArguments& arguments, std::ostream& out) {
  const fs::path output = arguments.output.empty()
                              ? fs::path(arguments.authority) / arguments.name
                              : fs::path(arguments.output);
  const net::CertificateFiles files = net::make_certificate(
      arguments.authority, arguments.name, {.to_days = arguments.worker_days}, output);
  out << "wrote " << escaped(files.certificate.string()) << " and "
      << escaped(files.private_key.string())
      << "\nThe worker needs them with the copy of ca.pem beside them, and these "
         "variables:\n\n"
      << "  export TRIREME_CA_FILE=" << shell_path(files.authority) << "\n"
      << "  export TRIREME_CERTIFICATE_FILE=" << shell_path(files.certificate) << "\n"
      << "  export TRIREME_PRIVATE_KEY_FILE=" << shell_path(files.private_key) << "\n";
}

}  // namespace

void add_keys_options(CLI::App& keys, KeysArguments& arguments) {
  require_word(keys);
  add_job(keys, arguments);
  add_ca(keys, arguments);
  add_worker(keys, arguments);
  keys.footer(
      "A job key is one file for all workers, and the quick way. Certificates are a "
      "file\n"
      "for each: they prove names, and one that is lost does not open the whole job.\n"
      "docs/security.md says what each of them promises.");
}

int run_keys(
    const std::string& word,
    const KeysArguments& arguments,
    std::ostream& out,
    std::ostream& err) try {
  if (word == "job")
    make_job_key(arguments, out);
  else if (word == "ca")
    make_ca(arguments, out);
  else
    make_worker(arguments, out);
  return 0;
} catch (const InvalidArgument& error) {
  err << "trireme: " << error.what() << "\n";
  return kWrongUsage;
}

}  // namespace trireme::cli
