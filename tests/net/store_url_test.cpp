#include "trireme/net/store_url.h"

#include <string>

#include <gtest/gtest.h>

#include "refusal.h"

namespace trireme::net {
namespace {

TEST(StoreUrl, HasThreeForms) {
  EXPECT_EQ(parse_store_url("env://").kind, StoreUrl::Kind::Env);

  StoreUrl url = parse_store_url("tcp://node7:29500?rank=0&world=4");
  EXPECT_EQ(url.kind, StoreUrl::Kind::Tcp);
  EXPECT_EQ(url.address, Address::tcp("node7", 29500));
  EXPECT_EQ(url.rank, 0);
  EXPECT_EQ(url.world, 4);

  url = parse_store_url("tcp://[::1]:1");
  EXPECT_EQ(url.address, Address::tcp("::1", 1));
  EXPECT_EQ(url.rank, std::nullopt);

  url = parse_store_url("file:///shared/job 17/store");
  EXPECT_EQ(url.kind, StoreUrl::Kind::File);
  EXPECT_EQ(url.path, "/shared/job 17/store");
  EXPECT_EQ(parse_store_url("file:///a/b?rank=3").rank, 3);
}

std::string refused_url(const char* url) {
  return refusal_of([url] { parse_store_url(url); });
}

TEST(StoreUrl, RefusesOtherForms) {
  EXPECT_EQ(
      refused_url("tpc://node7:29500"),
      "[net] expected the URL of a store as env://, tcp://host:port or file:///path, "
      "got \"tpc://node7:29500\"; use one of the three; did you mean tcp?");
  for (const char* url : {"", "node7:29500", "://", "tcp:/a:1", "env:", "/path"})
    EXPECT_NE(refused_url(url).find("expected the URL of a store"), std::string::npos)
        << url;
  EXPECT_EQ(
      refused_url("env://x"),
      "[net] expected nothing after env:// in the store's URL, got \"x\"; set "
      "MASTER_ADDR, MASTER_PORT and RANK instead, or write tcp://host:port");
  EXPECT_EQ(
      refused_url("file://shared/store"),
      "[net] expected a whole path after file:// in the store's URL, got "
      "\"shared/store\"; write it with three slashes, as file:///shared/job-17/store");
  EXPECT_NE(refused_url("file:///").find("expected a whole path"), std::string::npos);
}

TEST(StoreUrl, RefusesAddressesThatNobodyCouldFind) {
  for (const char* url :
       {"tcp://", "tcp://node7", "tcp://node7:", "tcp://:29500", "tcp://node7:70000"})
    EXPECT_NE(refused_url(url).find("expected an address"), std::string::npos) << url;
  EXPECT_EQ(
      refused_url("tcp://node7:0"),
      "[net] expected the port of the store in \"tcp://node7:0\", got 0; name one, "
      "because the others could not find any that is free");
}

TEST(StoreUrl, ChecksRankAndWorld) {
  EXPECT_EQ(
      refused_url("tcp://a:1?rank=4&world=4"),
      "[net] expected a rank below the world of 4 in the store's URL, got 4; ranks "
      "count "
      "from 0");
  EXPECT_EQ(
      refused_url("tcp://a:1?rnak=4"),
      "[net] expected rank or world after the ? of the store's URL, got \"rnak\"; "
      "write "
      "it as ?rank=0&world=4; did you mean rank?");
  for (const char* query :
       {"rank=", "rank", "rank=-1", "rank=x", "world=0", "rank=1&rank=1", "rank=1&&"})
    EXPECT_NE(
        refused_url((std::string("tcp://a:1?") + query).c_str()), "nothing was thrown")
        << query;
}

}  // namespace
}  // namespace trireme::net
