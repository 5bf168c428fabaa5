#include "trireme/net/pem.h"

#include <openssl/err.h>
#include <openssl/pem.h>

#include <gtest/gtest.h>

#include "trireme/core/error.h"
#include "trireme/net/certificate_maker.h"
#include "trireme/testing/message.h"
#include "trireme/testing/scratch_folder.h"

namespace trireme::net {
namespace {

class PemFiles : public ::testing::Test {
 protected:
  std::filesystem::path write(const std::string& content) const {
    const auto path = folder_.write("file.pem", content);
    std::filesystem::permissions(path, std::filesystem::perms(0600));
    return path;
  }
  static std::string text_of(const EVP_PKEY& key) {
    return std::string(pem_of(key).view());
  }

  const testing::ScratchFolder folder_;
  const KeyedCertificate one_ = new_authority({.to_days = 9});
  const KeyedCertificate two_ = new_authority({.to_days = 9});
};

TEST_F(PemFiles, AreReadBack) {
  const std::string both = pem_of(*one_.certificate) + pem_of(*two_.certificate);
  const auto certificates = read_pem_certificates(write("A comment.\n" + both));
  ASSERT_EQ(certificates.size(), 2U);
  EXPECT_EQ(X509_cmp(certificates[0].get(), one_.certificate.get()), 0);
  EXPECT_EQ(X509_cmp(certificates[1].get(), two_.certificate.get()), 0);
  const PrivateKeyPtr key = read_pem_key(write(text_of(*one_.key)));
  EXPECT_EQ(EVP_PKEY_eq(key.get(), one_.key.get()), 1);
}

TEST_F(PemFiles, MustHoldWhatIsWanted) {
  const std::string pem = pem_of(*one_.certificate);
  std::string broken = pem;
  broken[100] = broken[100] == 'A' ? 'B' : 'A';
  broken[101] = '!';
  for (const std::string& wrong :
       {std::string("x"), text_of(*one_.key), broken, pem + broken, pem.substr(0, 200)})
    EXPECT_THROW((void)read_pem_certificates(write(wrong)), InvalidArgument);
  for (const std::string& wrong : {std::string("x"), pem})
    EXPECT_THROW((void)read_pem_key(write(wrong)), InvalidArgument);
  EXPECT_EQ(ERR_peek_error(), 0U);
}

// Nobody is there to type a passphrase, and a prompt would hang a job.
TEST_F(PemFiles, UnderAPassphraseAreRefused) {
  const BioPtr bio(BIO_new(BIO_s_mem()));
  unsigned char phrase[] = "secret";
  ASSERT_EQ(
      PEM_write_bio_PrivateKey(
          bio.get(), one_.key.get(), EVP_aes_128_cbc(), phrase, 6, nullptr, nullptr),
      1);
  char* data = nullptr;
  const long bytes = BIO_get_mem_data(bio.get(), &data);
  const auto path = write(std::string(data, static_cast<std::size_t>(bytes)));
  const std::string message =
      testing::message_of<InvalidArgument>([&path] { (void)read_pem_key(path); });
  EXPECT_TRUE(testing::contains(message, "a private key without passphrase"));
}

TEST_F(PemFiles, KeepTheKeyOutOfMessages) {
  const std::string pem = text_of(*one_.key);
  const auto path = write(pem.substr(0, pem.size() / 2));
  const std::string message =
      testing::message_of<InvalidArgument>([&path] { (void)read_pem_key(path); });
  EXPECT_FALSE(testing::contains(message, pem.substr(40, 20)));
}

}  // namespace
}  // namespace trireme::net
