#ifndef ISOBIT_RUNTIME_TEXT_BYTE_ALPHABET_H_
#define ISOBIT_RUNTIME_TEXT_BYTE_ALPHABET_H_

#include <string>
#include <string_view>

namespace isobit {

// Byte-level vocabularies write each byte of a piece as one printable character (GPT-2's
// bytes_to_unicode): the printable bytes of Latin-1 as themselves, the others, in ascending order,
// as U+0100, U+0101 ... So a space is written U+0120.

// The bytes that `text` stands for. False, with `bytes` unspecified, if some character of it is
// not of the alphabet or it is not valid UTF-8.
bool FromByteAlphabet(std::string_view text, std::string* bytes);

// The character that stands for `byte`.
char32_t ByteAlphabetChar(unsigned char byte);

}  // namespace isobit

#endif  // ISOBIT_RUNTIME_TEXT_BYTE_ALPHABET_H_
