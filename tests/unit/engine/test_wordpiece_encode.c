/* Cutting text into tokens: the longest piece, what is unknown, what is cut off, and bad input. */
#include "engine/wordpiece/wordpiece.h"

#include "base/prng.h"
#include "engine/wordpiece/wordpiece_fold.h"
#include "unit/seed.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

enum { PAD, UNK, CLS, SEP, HELLO, HE, LLO, O, DOT, A, MORE_A, ZHONG, LIMIT = 64 };

static const char vocabulary[] = "[PAD]\n[UNK]\n[CLS]\n[SEP]\nhello\nhe\n##llo\r\n##o\n.\na\n##a\n"
                                 "\xe4\xb8\xad";

static char path[64];

static enum tt_err open_text(const char *text, struct tt_wordpiece **out, struct tt_error *why) {
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    assert_int_equal(fwrite(text, 1, strlen(text), file), strlen(text));
    assert_int_equal(fclose(file), 0);
    return tt_wordpiece_open(path, out, why);
}

static int set_up(void **state) {
    struct tt_error why;
    snprintf(path, sizeof(path), "/tmp/tutti-vocab-XXXXXX");
    int descriptor = mkstemp(path);
    if (descriptor < 0 || close(descriptor))
        return -1;
    return open_text(vocabulary, (struct tt_wordpiece **)state, &why);
}

static int tear_down(void **state) {
    tt_wordpiece_close(*state);
    return unlink(path);
}

static void expect(const struct tt_wordpiece *wordpiece, const char *text, const int64_t *ids,
                   int32_t count) {
    int64_t found[LIMIT];
    assert_int_equal(tt_wordpiece_encode(wordpiece, text, strlen(text), found, LIMIT), count);
    assert_memory_equal(found, ids, (size_t)count * sizeof(*ids));
}
#define EXPECT(text, ...)                                                                          \
    expect(*state, text, (const int64_t[]){CLS, __VA_ARGS__},                                      \
           (int32_t)TT_COUNT(((const int64_t[]){CLS, __VA_ARGS__})))

static void test_words(void **state) {
    EXPECT("", SEP);
    EXPECT("hello", HELLO, SEP);
    EXPECT(" HELLO \n", HELLO, SEP);
    EXPECT("helloo", HELLO, O, SEP);
    EXPECT("hea", HE, MORE_A, SEP);
    EXPECT("h\xc3\xa9llo", HELLO, SEP);  /* e with an acute accent */
    EXPECT("he\xcc\x81llo", HELLO, SEP); /* the same, decomposed */
    EXPECT("hello.a", HELLO, DOT, A, SEP);
    EXPECT("a\xe4\xb8\xad\x61", A, ZHONG, A, SEP);
    EXPECT("helx a", UNK, A, SEP);       /* the whole word is unknown */
    EXPECT("a\x01\x61", A, MORE_A, SEP); /* a control character goes */
    EXPECT("[SEP]", UNK, UNK, UNK, SEP); /* special tokens in a text are text */
}

static void test_lengths(void **state) {
    char text[2 * TT_WORDPIECE_MAX_WORD];
    int64_t ids[2 * TT_WORDPIECE_MAX_WORD];
    memset(text, 'a', sizeof(text));
    int32_t count = tt_wordpiece_encode(*state, text, TT_WORDPIECE_MAX_WORD, ids, TT_COUNT(ids));
    assert_int_equal(count, TT_WORDPIECE_MAX_WORD + 2);
    count = tt_wordpiece_encode(*state, text, TT_WORDPIECE_MAX_WORD + 1, ids, TT_COUNT(ids));
    assert_int_equal(count, 3);
    assert_int_equal(ids[1], UNK);
    for (int32_t limit = 2; limit < 10; limit++) { /* cut off, with [SEP] at the end */
        ids[limit] = -7;
        assert_int_equal(tt_wordpiece_encode(*state, text, 50, ids, limit), limit);
        assert_int_equal(ids[limit - 1], SEP);
        assert_int_equal(ids[limit], -7);
    }
}

static void test_not_utf8(void **state) {
    static const char *const bad[] = {
        "\x80",         "a\xc3", "\xc0\xaf", "\xed\xa0\x80", "\xf4\x90\x80\x80",
        "\xe0\x80\x80", "\xff",  "\xc3(",    "\xf0\x9f\x98"};
    int64_t ids[LIMIT];
    for (size_t i = 0; i < TT_COUNT(bad); i++) {
        assert_true(tt_wordpiece_encode(*state, bad[i], strlen(bad[i]), ids, LIMIT) < 0);
        assert_true(tt_wordpiece_encode(*state, bad[i], strlen(bad[i]), ids, 2) < 0);
    }
}

/* Random bytes, in memory that ends with them, neither crash nor write beyond the limit. */
static void test_random_bytes(void **state) {
    struct tt_prng prng;
    tt_prng_init(&prng, test_seed(5), 0);
    for (int i = 0; i < 20000; i++) {
        size_t size = tt_prng_below(&prng, 24);
        int32_t limit = 2 + (int32_t)tt_prng_below(&prng, 20);
        char *text = malloc(size ? size : 1);
        int64_t *ids = malloc((size_t)limit * sizeof(*ids));
        assert_non_null(text);
        assert_non_null(ids);
        for (size_t b = 0; b < size; b++)
            text[b] = tt_prng_below(&prng, 2) ? (char)tt_prng_below(&prng, 256)
                                              : "ahelo. \xe4"[tt_prng_below(&prng, 8)];
        int32_t count = tt_wordpiece_encode(*state, text, size, ids, limit);
        assert_true(count < 0 || (count >= 2 && count <= limit));
        assert_true(count < 0 || ids[count - 1] == SEP);
        free(text);
        free(ids);
    }
}

static void test_folding(void **state) {
    (void)state;
    uint32_t out[TT_FOLD_MAX];
    for (uint32_t code = 0; code < 0x110000; code++) { /* folding again changes nothing */
        int32_t count = tt_wordpiece_fold(code, out);
        for (int32_t i = 0; i < count; i++) {
            uint32_t again[TT_FOLD_MAX];
            assert_int_equal(tt_wordpiece_fold(out[i], again), 1);
            assert_int_equal(again[0], out[i]);
        }
    }
    assert_int_equal(tt_wordpiece_fold(0xd55c, out), 3); /* a Hangul syllable */
    assert_int_equal(out[0], 0x1112);
    assert_int_equal(out[1], 0x1161);
    assert_int_equal(out[2], 0x11ab);
}

static void test_bad_vocabularies(void **state) {
    (void)state;
    struct tt_wordpiece *none;
    struct tt_error why;
    assert_int_equal(open_text("[PAD]\n[UNK]\n[CLS]\n", &none, &why), TT_ERR_INVALID);
    assert_non_null(strstr(why.text, "there is no token [SEP]"));
    assert_int_equal(open_text("", &none, &why), TT_ERR_INVALID);
    assert_int_equal(tt_wordpiece_open("/tmp/no such file", &none, &why), TT_ERR_NOT_FOUND);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_words),    cmocka_unit_test(test_lengths),
        cmocka_unit_test(test_not_utf8), cmocka_unit_test(test_random_bytes),
        cmocka_unit_test(test_folding),  cmocka_unit_test(test_bad_vocabularies),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
