#include "trireme/cli/run_nodes.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <optional>
#include <set>
#include <string_view>

#include <CLI/CLI.hpp>

#include "trireme/core/environment.h"
#include "trireme/core/error.h"
#include "trireme/core/escape.h"
#include "trireme/core/list_names.h"
#include "trireme/core/parse_number.h"
#include "trireme/launch/company.h"
#include "trireme/launch/variables.h"

namespace trireme::cli {
namespace {

// Those of torchrun.
constexpr int kMasterPort = 29500;
constexpr int kRendezvousPort = 29400;
constexpr int kMostNodes = 10'000;

std::vector<std::string> split(std::string_view all, char at) {
  std::vector<std::string> parts;
  while (!all.empty()) {
    const size_t end = std::min(all.find(at), all.size());
    if (end > 0)
      parts.emplace_back(all.substr(0, end));
    all.remove_prefix(std::min(end + 1, all.size()));
  }
  return parts;
}

std::optional<int> read_count(std::string_view word) {
  const auto count = parse_number<int>(word);
  return count && *count >= 1 && *count <= kMostNodes ? count : std::nullopt;
}

// A number, or torchrun's MIN:MAX, where nodes may come and go.
void read_bounds(const std::string& given, launch::Nodes& nodes) {
  const std::string_view word = given;
  const size_t colon = word.find(':');
  const auto least = read_count(word.substr(0, colon));
  const auto most =
      colon == std::string_view::npos ? least : read_count(word.substr(colon + 1));
  if (!least || !most || *most < *least)
    throw InvalidArgument(text(
        "[cli] expected --nnodes to be a number of hosts from 1 to ",
        kMostNodes,
        ", or bounds as 2:4, got ",
        in_quotes(given),
        "; leave it out for one host"));
  nodes.least = *least;
  nodes.most = *most;
}

void read_endpoint(
    const std::string& given, int lowest_port, launch::Options& options) {
  const size_t colon = given.rfind(':');
  const bool bare = colon == std::string::npos || given.ends_with(']');
  if (!bare && given.find(':') != colon && given[colon - 1] != ']')
    throw InvalidArgument(text(
        "[cli] expected an IPv6 address of --rdzv-endpoint in brackets, got ",
        in_quotes(given),
        "; write it as [::1]:29400"));
  options.master_addr = bare ? given : given.substr(0, colon);
  const auto port = bare ? kRendezvousPort : parse_number<int>(given.substr(colon + 1));
  if (options.master_addr.empty() || !port || *port < lowest_port || *port > 65535)
    throw InvalidArgument(text(
        "[cli] expected --rdzv-endpoint as host or host:port, got ",
        in_quotes(given),
        "; name the host of node 0, and a port from ",
        lowest_port,
        " to 65535"));
  options.master_port = *port;
}

// torchrun's "name=value,name=value": join_timeout (or timeout) and last_call_timeout.
void read_settings(const std::string& given, launch::Nodes& nodes) {
  for (const std::string& one : split(given, ',')) {
    const size_t equals = std::min(one.find('='), one.size());
    const std::string name = one.substr(0, equals);
    const auto seconds = parse_number<double>(
        std::string_view(one).substr(std::min(equals + 1, one.size())));
    const bool join = name == "join_timeout" || name == "timeout";
    if ((!join && name != "last_call_timeout") || !seconds ||
        !(*seconds > 0 && *seconds <= 86400))
      throw InvalidArgument(text(
          "[cli] expected --rdzv-conf as "
          "join_timeout=SECONDS,last_call_timeout=SECONDS, "
          "got ",
          in_quotes(one),
          "; give one of these, above 0 and at most 86400"));
    (join ? nodes.join : nodes.last_call) = std::chrono::milliseconds(
        static_cast<std::int64_t>(std::ceil(*seconds * 1000)));
  }
}

std::string bounds_of(const launch::Nodes& nodes) {
  return nodes.least == nodes.most ? text(nodes.least)
                                   : text(nodes.least, ":", nodes.most);
}

// What another host is to run, to be a node of this job.
std::vector<std::string> remote_command(
    const RunArguments& arguments, const launch::Options& options, int node) {
  std::vector<std::string> words = {
      std::filesystem::read_symlink("/proc/self/exe").string(),
      "run",
      "--stdin-variables",
      "--nnodes",
      bounds_of(*options.nodes),
      "--node-rank",
      text(node),
      "--master-addr",
      options.master_addr,
      "--master-port",
      text(options.master_port),
      "-n",
      arguments.first.ranks,
      "--grace",
      text(arguments.grace_seconds),
      "--redirects",
      arguments.redirects,
      "--tee",
      arguments.tee};
  const auto add = [&words](const char* name, const std::string& value) {
    if (!value.empty())
      words.insert(words.end(), {name, value});
  };
  add("--log-dir", arguments.log_dir);
  add("--rdzv-id", arguments.run_id);
  add("--rdzv-conf", arguments.rendezvous_settings);
  if (arguments.prefix)
    words.emplace_back("--prefix");
  if (arguments.no_pin)
    words.emplace_back("--no-pin");
  words.emplace_back("--");
  const auto program = one_part(arguments.first.command);
  words.insert(words.end(), program.begin(), program.end());
  return words;
}

// --hosts says all of that itself.
void check_alone(const RunArguments& arguments) {
  std::vector<std::string> beside;
  const auto note = [&beside](const char* name, bool given) {
    if (given)
      beside.emplace_back(name);
  };
  note("--nnodes", arguments.nodes != "1");
  note("--node-rank", arguments.node_rank >= 0);
  note("--master-addr", arguments.master_addr != RunArguments().master_addr);
  note("--rdzv-endpoint", !arguments.endpoint.empty());
  if (!beside.empty())
    throw InvalidArgument(text(
        "[cli] expected --hosts alone, got ",
        list_names(beside),
        " beside it; leave that out, since the hosts say it"));
}

void read_hosts(const RunArguments& arguments, launch::Options& options) {
  const auto hosts = split(arguments.hosts, ',');
  const std::set<std::string> different(hosts.begin(), hosts.end());
  if (hosts.empty() || different.size() != hosts.size())
    throw InvalidArgument(text(
        "[cli] expected --hosts to name each host once, as a,b,c, got ",
        in_quotes(arguments.hosts),
        "; the first is this one"));
  check_alone(arguments);
  for (const std::string& host : hosts)
    if (host.starts_with('-'))
      throw InvalidArgument(text(
          "[cli] expected --hosts to name hosts, got ",
          in_quotes(host),
          ", which ssh would take for an option; correct the list"));
  if (!launch::is_own_address(net::Address::tcp(hosts[0], 0)))
    throw InvalidArgument(text(
        "[cli] expected the first of --hosts to be this machine, got ",
        in_quotes(hosts[0]),
        ", which is no address of it; begin with the name by which the others reach "
        "it"));
  const int count = static_cast<int>(hosts.size());
  if (count == 1)
    return;  // nobody to meet, and nothing to protect
  options.nodes = launch::Nodes{.least = count, .most = count, .rank = 0};
  options.master_addr = hosts[0];
  if (options.master_port == 0)
    options.master_port = launch::free_port();
  const Environment env = Environment::of_process();
  const std::string shell = !arguments.shell.empty() ? arguments.shell
                            : env.has("TRIREME_SSH") ? env.string("TRIREME_SSH")
                                                     : "";
  if (auto words = split(shell, ' '); !words.empty())
    options.nodes->shell = std::move(words);
  for (int node = 1; node < count; ++node)
    options.nodes->remotes.push_back(
        {.host = hosts[static_cast<size_t>(node)],
         .command = remote_command(arguments, options, node)});
}

}  // namespace

std::string both_spellings(const std::string& name) {
  std::string other = name;
  for (size_t i = 2; i < other.size(); ++i)
    if (other[i] == '-')
      other[i] = '_';
  return other == name ? name : text(name, ",", other);
}

void add_node_options(CLI::App& run, RunArguments& arguments) {
  const std::string group = "Several hosts (the first seven as torchrun)";
  const auto add = [&](const std::string& names, auto& value, const std::string& does) {
    return run.add_option(both_spellings(names), value, does)->group(group);
  };
  add("--nnodes", arguments.nodes, "Hosts: a number, or bounds as 2:4")->type_name("N");
  add("--node-rank", arguments.node_rank, "The number of this one; 0 leads")
      ->check(CLI::Range(0, kMostNodes - 1).description(""))
      ->type_name("K");
  add("--master-addr",
      arguments.master_addr,
      "Where they meet, and MASTER_ADDR for the ranks")
      ->type_name("HOST")
      ->capture_default_str();
  add("--master-port",
      arguments.master_port,
      "The port there, 29500 if not given; on one host MASTER_PORT for the ranks")
      ->check(CLI::Range(1, 65535).description(""))
      ->type_name("PORT");
  add("--rdzv-endpoint", arguments.endpoint, "Both at once, as HOST:PORT")
      ->type_name("WHERE");
  add("--rdzv-conf",
      arguments.rendezvous_settings,
      "join_timeout=300 and last_call_timeout=5, in seconds")
      ->type_name("CONF");
  add("--rdzv-backend", arguments.rendezvous, "Accepted: c10d or static")
      ->check(CLI::IsMember({"c10d", "static"}).description(""))
      ->type_name("NAME");
  add("--hosts", arguments.hosts, "This host and others, where ssh starts the rest")
      ->type_name("A,B,C");
  add("--ssh", arguments.shell, "The command in place of ssh, as \"ssh -p 2222\"")
      ->type_name("COMMAND");
  run.add_flag(
         "--stdin-variables",
         arguments.stdin_variables,
         "Take variables, and the job key, from stdin first")
      ->group(group);
}

// What would say one thing and do another.
void check_nodes(const RunArguments& arguments) {
  if (!arguments.shell.empty() && arguments.hosts.empty())
    throw InvalidArgument(
        "[cli] expected --hosts beside --ssh, got none; name the hosts that it leads "
        "to");
  const bool one_node = arguments.hosts.empty() && arguments.nodes == "1";
  if (one_node && arguments.node_rank > 0)
    throw InvalidArgument(text(
        "[cli] expected --nnodes beside --node-rank ",
        arguments.node_rank,
        ", got one host; say how many there are"));
  if (arguments.standalone && !one_node)
    throw InvalidArgument(
        "[cli] expected one host with --standalone, got --nnodes or --hosts; leave out "
        "one of them");
}

// --master-addr and --master-port may say the same.
void check_endpoint(const RunArguments& arguments, const launch::Options& options) {
  const RunArguments defaults;
  const auto differs = [&](const char* name, const auto& given) {
    throw InvalidArgument(text(
        "[cli] expected one place to meet, got --rdzv-endpoint ",
        in_quotes(arguments.endpoint),
        " and ",
        name,
        " ",
        given,
        "; leave out one of the two"));
  };
  if (arguments.master_addr != defaults.master_addr &&
      arguments.master_addr != options.master_addr)
    differs("--master-addr", in_quotes(arguments.master_addr));
  if (arguments.master_port != defaults.master_port &&
      arguments.master_port != options.master_port)
    differs("--master-port", arguments.master_port);
}

// Where a launcher of its own runs on each host.
void read_meeting(const RunArguments& arguments, launch::Options& options) {
  launch::Nodes nodes{.rank = arguments.node_rank};
  read_bounds(arguments.nodes, nodes);
  if (nodes.most == 1) {
    // Nobody meets there, but what is written must be right. To torchrun port 0 means
    // any, and that is what one host takes.
    launch::Options unused;
    if (!arguments.endpoint.empty())
      read_endpoint(arguments.endpoint, 0, unused);
    return;
  }
  if (!arguments.endpoint.empty()) {
    read_endpoint(arguments.endpoint, 1, options);
    check_endpoint(arguments, options);
  }
  if (options.master_port == 0)
    options.master_port = kMasterPort;
  options.nodes = std::move(nodes);
}

void read_nodes(const RunArguments& arguments, launch::Options& options) {
  check_nodes(arguments);
  launch::Nodes settings;  // read for one host, too, where nothing comes of them
  read_settings(arguments.rendezvous_settings, settings);
  arguments.hosts.empty() ? read_meeting(arguments, options)
                          : read_hosts(arguments, options);
  if (options.nodes) {
    options.nodes->join = settings.join;
    options.nodes->last_call = settings.last_call;
  }
}

}  // namespace trireme::cli
