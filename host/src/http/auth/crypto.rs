//! Signatures of access tokens, checked by the library that TLS uses.

use jsonwebtoken::{
    Algorithm, DecodingKey, DecodingKeyKind,
    crypto::{CryptoProvider, JwkUtils, JwtVerifier},
    errors::{Error, ErrorKind},
    signature,
};
use ring::signature::{
    ECDSA_P256_SHA256_FIXED, ECDSA_P384_SHA384_FIXED, ED25519, RSA_PKCS1_2048_8192_SHA256,
    RSA_PKCS1_2048_8192_SHA384, RSA_PKCS1_2048_8192_SHA512, RSA_PSS_2048_8192_SHA256,
    RSA_PSS_2048_8192_SHA384, RSA_PSS_2048_8192_SHA512, RsaParameters, RsaPublicKeyComponents,
    UnparsedPublicKey, VerificationAlgorithm,
};

/// Nothing is signed here, and no key is made.
static RING: CryptoProvider = CryptoProvider {
    signer_factory: |_, _| Err(ErrorKind::InvalidAlgorithm.into()),
    verifier_factory: |algorithm, key| Ok(Box::new(Check::new(*algorithm, key)?)),
    jwk_utils: JwkUtils::new_unimplemented(),
};

/// Makes [`RING`] the one that checks; more often than once changes nothing.
pub(super) fn install() {
    let _ = RING.install_default();
}

enum With {
    Rsa(&'static RsaParameters),
    Other(&'static dyn VerificationAlgorithm),
}

/// One signature's check.
struct Check {
    algorithm: Algorithm,
    with: With,
    key: DecodingKey,
}

impl Check {
    fn new(algorithm: Algorithm, key: &DecodingKey) -> Result<Self, Error> {
        let with = match algorithm {
            Algorithm::RS256 => With::Rsa(&RSA_PKCS1_2048_8192_SHA256),
            Algorithm::RS384 => With::Rsa(&RSA_PKCS1_2048_8192_SHA384),
            Algorithm::RS512 => With::Rsa(&RSA_PKCS1_2048_8192_SHA512),
            Algorithm::PS256 => With::Rsa(&RSA_PSS_2048_8192_SHA256),
            Algorithm::PS384 => With::Rsa(&RSA_PSS_2048_8192_SHA384),
            Algorithm::PS512 => With::Rsa(&RSA_PSS_2048_8192_SHA512),
            Algorithm::ES256 => With::Other(&ECDSA_P256_SHA256_FIXED),
            Algorithm::ES384 => With::Other(&ECDSA_P384_SHA384_FIXED),
            Algorithm::EdDSA => With::Other(&ED25519),
            // A secret that both sides know is none in a set of public keys.
            _ => return Err(ErrorKind::InvalidAlgorithm.into()),
        };
        if !key.family().algorithms().contains(&algorithm) {
            return Err(ErrorKind::InvalidKeyFormat.into());
        }
        Ok(Self { algorithm, with, key: key.clone() })
    }
}

impl signature::Verifier<Vec<u8>> for Check {
    fn verify(&self, message: &[u8], signature: &Vec<u8>) -> Result<(), signature::Error> {
        let checked = match (&self.with, self.key.kind()) {
            (With::Rsa(with), DecodingKeyKind::RsaModulusExponent { n, e }) => {
                RsaPublicKeyComponents { n, e }.verify(with, message, signature)
            }
            (With::Other(with), DecodingKeyKind::SecretOrDer(key)) => {
                UnparsedPublicKey::new(*with, key).verify(message, signature)
            }
            _ => Err(ring::error::Unspecified),
        };
        checked.map_err(|_| signature::Error::new())
    }
}

impl JwtVerifier for Check {
    fn algorithm(&self) -> Algorithm {
        self.algorithm
    }
}
