#include "trireme/net/store_url.h"

#include <string>

#include "trireme/core/error.h"
#include "trireme/core/escape.h"
#include "trireme/core/nearest.h"
#include "trireme/core/parse_number.h"

namespace trireme::net {
namespace {

constexpr int kMostRanks = 1'000'000;

void read_number(
    std::string_view name, std::string_view word, std::optional<int>& into) {
  const auto number = parse_number<int>(word);
  const int least = name == "world" ? 1 : 0;
  if (!number || *number < least || *number > kMostRanks || into)
    throw InvalidArgument(text(
        "[net] expected one ",
        name,
        " of the store's URL as a number from ",
        least,
        " to ",
        kMostRanks,
        ", got ",
        into ? "two" : in_quotes(word),
        "; write it as ?rank=0&world=4"));
  into = number;
}

void read_query(std::string_view query, StoreUrl& url) {
  while (!query.empty()) {
    const std::string_view part = query.substr(0, query.find('&'));
    query.remove_prefix(std::min(query.size(), part.size() + 1));
    const std::size_t equals = std::min(part.find('='), part.size());
    const std::string_view name = part.substr(0, equals);
    const std::string_view value = part.substr(std::min(equals + 1, part.size()));
    if (name == "rank")
      read_number(name, value, url.rank);
    else if (name == "world")
      read_number(name, value, url.world);
    else
      throw InvalidArgument(text(
          "[net] expected rank or world after the ? of the store's URL, got ",
          in_quotes(name),
          "; write it as ?rank=0&world=4",
          did_you_mean(name, {"rank", "world"})));
  }
  if (url.rank && url.world && *url.rank >= *url.world)
    throw InvalidArgument(text(
        "[net] expected a rank below the world of ",
        *url.world,
        " in the store's URL, got ",
        *url.rank,
        "; ranks count from 0"));
}

void read_env(std::string_view rest) {
  if (!rest.empty())
    throw InvalidArgument(text(
        "[net] expected nothing after env:// in the store's URL, got ",
        in_quotes(rest),
        "; set MASTER_ADDR, MASTER_PORT and RANK instead, or write tcp://host:port"));
}

Address read_tcp(std::string_view rest) {
  Address address = Address::parse(text("tcp://", rest));
  if (address.port == 0)
    throw InvalidArgument(text(
        "[net] expected the port of the store in ",
        in_quotes(text("tcp://", rest)),
        ", got 0; name one, because the others could not find any that is free"));
  return address;
}

std::filesystem::path read_path(std::string_view rest) {
  if (rest.size() < 2 || rest.front() != '/')
    throw InvalidArgument(text(
        "[net] expected a whole path after file:// in the store's URL, got ",
        in_quotes(rest),
        "; write it with three slashes, as file:///shared/job-17/store"));
  return rest;
}

}  // namespace

StoreUrl parse_store_url(std::string_view given) {
  const std::size_t slashes = given.find("://");
  const std::string_view scheme = given.substr(0, std::min(slashes, given.size()));
  std::string_view rest = slashes == std::string_view::npos ? std::string_view()
                                                            : given.substr(slashes + 3);
  if (slashes == std::string_view::npos ||
      (scheme != "env" && scheme != "tcp" && scheme != "file"))
    throw InvalidArgument(text(
        "[net] expected the URL of a store as env://, tcp://host:port or file:///path, "
        "got ",
        in_quotes(given),
        "; use one of the three",
        did_you_mean(scheme, {"env", "tcp", "file"})));
  StoreUrl url;
  if (scheme == "env") {
    read_env(rest);
    return url;
  }
  const std::size_t mark = rest.find('?');
  if (mark != std::string_view::npos)
    read_query(rest.substr(mark + 1), url);
  rest = rest.substr(0, mark);
  if (scheme == "tcp") {
    url.kind = StoreUrl::Kind::Tcp;
    url.address = read_tcp(rest);
  } else {
    url.kind = StoreUrl::Kind::File;
    url.path = read_path(rest);
  }
  return url;
}

}  // namespace trireme::net
