#include "trireme/cli/keys.h"

#include <fstream>
#include <sstream>
#include <sys/stat.h>

#include <gtest/gtest.h>

#include "trireme/cli/front.h"
#include "trireme/net/job_key.h"
#include "trireme/net/security.h"
#include "trireme/net/tls.h"
#include "trireme/testing/message.h"
#include "trireme/testing/scratch_folder.h"

namespace trireme::cli {
namespace {

class Keys : public ::testing::Test {
 protected:
  struct Said {
    int code = 0;
    std::string out;
    std::string err;
  };

  static Said keys(std::vector<std::string> words) {
    words.insert(words.begin(), "keys");
    std::ostringstream out, err;
    const int code = run_front(words, out, err);
    return {.code = code, .out = out.str(), .err = err.str()};
  }
  std::string path(const std::string& name) const {
    return (folder_.path() / name).string();
  }
  // The variables that an answer tells to set, for paths that need no quotes.
  static Environment told(const std::string& out) {
    Environment::Variables variables;
    std::istringstream lines(out);
    const std::string mark = "  export ";
    for (std::string line; std::getline(lines, line);)
      if (line.starts_with(mark)) {
        const std::size_t equals = line.find('=');
        variables[line.substr(mark.size(), equals - mark.size())] =
            line.substr(equals + 1);
      }
    return Environment(variables);
  }
  static unsigned mode_of(const std::string& path) {
    struct stat status {};
    EXPECT_EQ(::stat(path.c_str(), &status), 0) << path;
    return status.st_mode & 07777;
  }

  const testing::ScratchFolder folder_;
};

TEST_F(Keys, OfAJobAreOneFile) {
  const Said said = keys({"job", path("job.key")});
  EXPECT_EQ(said.code, 0) << said.err;
  EXPECT_EQ(mode_of(path("job.key")), 0600U);
  const net::JobKey key = net::JobKey::read(path("job.key"));
  EXPECT_TRUE(testing::contains(said.out, "fingerprint " + key.fingerprint()));
  EXPECT_FALSE(testing::contains(said.out, key.text()));
  EXPECT_EQ(told(said.out).string("TRIREME_JOB_KEY_FILE"), path("job.key"));
  const Said again = keys({"job", path("job.key")});
  EXPECT_EQ(again.code, 2);
  EXPECT_EQ(again.out, "");
  EXPECT_TRUE(testing::contains(again.err, "move that one away"));
  EXPECT_EQ(net::JobKey::read(path("job.key")), key);
}

TEST_F(Keys, ArePrintedForAShell) {
  const Said said = keys({"job", path("it's a key")});
  EXPECT_EQ(said.code, 0) << said.err;
  EXPECT_TRUE(testing::contains(
      said.out, "_FILE='" + folder_.path().string() + "/it'\\''s a key'\n"));
}

TEST_F(Keys, OfWorkersComeFromAnAuthority) {
  if (!net::has_tls())
    return;  // see below
  const Said ca = keys({"ca", path("ca"), "--days", "30"});
  EXPECT_EQ(ca.code, 0) << ca.err;
  EXPECT_TRUE(testing::contains(ca.out, "which stays here"));
  EXPECT_TRUE(testing::contains(ca.out, "trireme keys worker NAME --ca " + path("ca")));
  const Said beside = keys({"worker", "w0", "--ca", path("ca")});
  EXPECT_EQ(beside.code, 0) << beside.err;
  EXPECT_EQ(mode_of(path("ca/w0/w0.key")), 0600U);
  const Said apart =
      keys({"worker", "w1", "--ca", path("ca"), "--out", path("w1"), "--days", "9"});
  EXPECT_EQ(apart.code, 0) << apart.err;
  // What it says is enough for a worker.
  for (const Said& said : {beside, apart})
    EXPECT_TRUE(net::Security::from_environment(told(said.out)).encrypted());
  EXPECT_EQ(keys({"ca", path("ca")}).code, 2);
  EXPECT_EQ(keys({"worker", "w0", "--ca", path("ca")}).code, 2);
}

TEST_F(Keys, SayWhatIsWrong) {
  const auto refused = [](std::vector<std::string> words, const std::string& part) {
    const Said said = keys(std::move(words));
    EXPECT_EQ(said.code, 2);
    EXPECT_EQ(said.out, "");
    EXPECT_TRUE(testing::contains(said.err, part)) << said.err;
  };
  refused(
      {}, "expected a command (job, ca, worker), got none; see trireme keys --help");
  refused({"jbo"}, "got \"jbo\"; did you mean job?");
  refused({"job"}, "expected FILE, got none");
  refused({"job", ""}, "expected the name of a file, got \"\"");
  refused({"job", path("none/job.key")}, "No such file");
  refused({"worker", "w0"}, "expected --ca, got none");
  refused({"ca", path("ca"), "--days", "0"}, "expected --days to be from 1 to 36500");
  if (!net::has_tls())
    return;
  refused({"worker", "w0", "--ca", path("nowhere")}, "ca.pem");
  EXPECT_EQ(keys({"ca", path("ca")}).code, 0);
  refused({"worker", "a/b", "--ca", path("ca")}, "choose another name");
}

TEST_F(Keys, AreExplained) {
  for (const char* word : {"job", "ca", "worker"}) {
    const Said said = keys({word, "--help"});
    EXPECT_EQ(said.code, 0);
    EXPECT_TRUE(testing::contains(said.out, text("  trireme keys ", word)));
  }
  EXPECT_TRUE(testing::contains(keys({"--help"}).out, "docs/security.md"));
}

TEST_F(Keys, WithoutOpenSslAreJobKeysAlone) {
  if (net::has_tls())
    return;
  const Said said = keys({"ca", path("ca")});
  EXPECT_EQ(said.code, 1);
  EXPECT_TRUE(testing::contains(said.err, "install libssl-dev"));
}

}  // namespace
}  // namespace trireme::cli
