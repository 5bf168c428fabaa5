// What a build without OpenSSL says.
#include "certificate_files.h"
#include "trireme/core/error.h"
#include "trireme/net/tls.h"
#include "trireme/testing/message.h"

namespace trireme::net {
namespace {

TEST(TlsAbsent, SaysHowToGetIt) {
  EXPECT_FALSE(has_tls());
  const std::vector<std::function<void()>> uses{
      [] { (void)Security::job_key(JobKey::random()); },
      [] { (void)Security::certificates({}); },
      [] {
        (void)Security::from_environment(
            {{"TRIREME_JOB_KEY", JobKey::random().text()}});
      },
      [] { make_authority("/nowhere", {}); },
      [] { (void)make_certificate("/nowhere", "w0", {}, "/nowhere"); }};
  for (const auto& use : uses)
    EXPECT_TRUE(testing::contains(
        testing::message_of<NotSupported>(use), "install libssl-dev"));
}

}  // namespace
}  // namespace trireme::net
