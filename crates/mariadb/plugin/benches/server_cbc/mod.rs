//! The server's cipher for `file_key_management`: AES-CBC by the system's OpenSSL without padding;
//! the rest is combined with the encryption of the ciphertext's last block (`my_crypt.cc`).

use std::ffi::{c_int, c_uchar, c_void};
use std::ptr::{null, null_mut};

use libloading::Library;

type Context = *mut c_void;
type Cipher = *const c_void;

/// The functions that the server calls.
struct Functions {
    reset: unsafe extern "C" fn(Context) -> c_int,
    init: unsafe extern "C" fn(
        Context,
        Cipher,
        *const c_void,
        *const c_uchar,
        *const c_uchar,
        c_int,
    ) -> c_int,
    padding: unsafe extern "C" fn(Context, c_int) -> c_int,
    update: unsafe extern "C" fn(Context, *mut c_uchar, *mut c_int, *const c_uchar, c_int) -> c_int,
    finish: unsafe extern "C" fn(Context, *mut c_uchar, *mut c_int) -> c_int,
    cbc: unsafe extern "C" fn() -> Cipher,
    ecb: unsafe extern "C" fn() -> Cipher,
}

/// The server's cipher, with its contexts made.
pub(crate) struct ServerCbc {
    functions: Functions,
    whole: Context,
    tail: Context,
}

impl ServerCbc {
    /// Loads OpenSSL from the server's location; `None` if there is none.
    pub(crate) fn load() -> Option<Self> {
        // SAFETY: OpenSSL may be loaded anywhere, and is never unloaded. The names are those of
        // functions of these types in its versions 1.1 and 3.
        unsafe {
            let library = Box::leak(Box::new(Library::new("libcrypto.so.3").ok()?));
            let made: unsafe extern "C" fn() -> Context =
                *library.get(b"EVP_CIPHER_CTX_new").ok()?;
            let functions = Functions {
                reset: *library.get(b"EVP_CIPHER_CTX_reset").ok()?,
                init: *library.get(b"EVP_CipherInit_ex").ok()?,
                padding: *library.get(b"EVP_CIPHER_CTX_set_padding").ok()?,
                update: *library.get(b"EVP_CipherUpdate").ok()?,
                finish: *library.get(b"EVP_CipherFinal_ex").ok()?,
                cbc: *library.get(b"EVP_aes_128_cbc").ok()?,
                ecb: *library.get(b"EVP_aes_128_ecb").ok()?,
            };
            Some(Self { functions, whole: made(), tail: made() })
        }
    }

    /// Makes one call in pieces of these lengths, which cover the input.
    pub(crate) fn call(
        &self,
        key: &[u8; 16],
        iv: &[u8; 16],
        encrypt: bool,
        input: &[u8],
        lengths: &[usize],
        out: &mut [u8],
    ) {
        assert!(lengths.iter().sum::<usize>() <= input.len() && out.len() >= input.len() + 16);
        let Functions { update, finish, cbc, .. } = self.functions;
        // SAFETY: the pieces are within input and output, which has a block to spare.
        unsafe {
            self.begin(self.whole, cbc(), key, iv.as_ptr(), encrypt);
            let (mut from, mut to, mut len) = (0, 0, 0);
            for piece in lengths {
                let (source, place) = (input.as_ptr().add(from), out.as_mut_ptr().add(to));
                assert_eq!(update(self.whole, place, &raw mut len, source, *piece as c_int), 1);
                from += piece;
                to += len as usize;
            }
            if to < from {
                let last = if encrypt { &out[..to] } else { &input[..to] };
                let last = *last.last_chunk().unwrap_or(iv);
                let mask = self.block(key, last);
                for (at, mask) in (to..from).zip(mask) {
                    out[at] = input[at] ^ mask;
                }
            } else {
                assert_eq!(finish(self.whole, out.as_mut_ptr().add(to), &raw mut len), 1);
            }
            (self.functions.reset)(self.whole);
        }
    }

    fn block(&self, key: &[u8; 16], block: [u8; 16]) -> [u8; 32] {
        let (mut out, mut len) = ([0; 32], 0);
        let Functions { update, finish, ecb, reset, .. } = self.functions;
        // SAFETY: the output has a block to spare.
        unsafe {
            self.begin(self.tail, ecb(), key, null(), true);
            assert_eq!(update(self.tail, out.as_mut_ptr(), &raw mut len, block.as_ptr(), 16), 1);
            assert_eq!(finish(self.tail, out.as_mut_ptr().add(16), &raw mut len), 1);
            reset(self.tail);
        }
        out
    }

    /// # Safety
    /// `iv` is null or 16 bytes long.
    unsafe fn begin(
        &self,
        context: Context,
        cipher: Cipher,
        key: &[u8; 16],
        iv: *const c_uchar,
        encrypt: bool,
    ) {
        let Functions { init, padding, reset, .. } = self.functions;
        // SAFETY: the context was made by OpenSSL, and the key has the cipher's length.
        unsafe {
            assert_eq!(reset(context), 1);
            let engine = null_mut::<c_void>();
            assert_eq!(init(context, cipher, engine, key.as_ptr(), iv, encrypt.into()), 1);
            assert_eq!(padding(context, 0), 1);
        }
    }
}
