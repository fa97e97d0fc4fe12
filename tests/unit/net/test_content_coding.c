#include "net/coding/content_coding.h"

#include "base/clock.h"
#include "base/prng.h"
#include "unit/seed.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static struct tt_error why;

static struct tt_text pack(enum tt_coding coding, const void *bytes, size_t count) {
    struct tt_text packed;
    tt_text_init(&packed);
    size_t half = count / 2;
    struct tt_coding_piece pieces[] = {
        {bytes, half}, {NULL, 0}, {(const char *)bytes + half, count - half}};
    tt_coding_pack(coding, pieces, 3, &packed);
    assert_false(packed.failed);
    return packed;
}

static enum tt_err unpack(enum tt_coding coding, const void *bytes, size_t count, size_t limit,
                          struct tt_text *out) {
    char *copy = malloc(count ? count : 1); /* a read behind its end is seen */
    memcpy(copy, bytes, count);
    tt_text_init(out);
    why.text[0] = '\0';
    enum tt_err err = tt_coding_unpack(coding, copy, count, limit, out, &why);
    free(copy);
    return err;
}

/* Any length, any bytes, both codings: what comes out is what went in, at exactly the limit too. */
static void test_round_trip(void **state) {
    (void)state;
    uint64_t seed = test_seed((uint64_t)tt_clock_now());
    struct tt_prng prng;
    tt_prng_init(&prng, seed, 0);
    for (int round = 0; round < 60; round++) {
        enum tt_coding coding = round % 2 ? TT_CODING_GZIP : TT_CODING_DEFLATE;
        size_t count = (size_t)tt_prng_below(&prng, round % 3 ? 2000 : 300000);
        unsigned kinds = 1u << tt_prng_below(&prng, 9);
        char *bytes = malloc(count + 1);
        for (size_t i = 0; i < count; i++)
            bytes[i] = (char)tt_prng_below(&prng, kinds);
        struct tt_text packed = pack(coding, bytes, count), back;
        assert_int_equal(unpack(coding, packed.bytes, packed.length, count, &back), TT_OK);
        assert_int_equal(back.length, count);
        if (count)
            assert_memory_equal(back.bytes, bytes, count);
        tt_text_fini(&back);
        if (count > 0) {
            assert_int_equal(unpack(coding, packed.bytes, packed.length, count - 1, &back),
                             TT_ERR_BUSY);
            assert_true(back.length <= count);
            tt_text_fini(&back);
        }
        size_t cut = (size_t)tt_prng_below(&prng, packed.length);
        assert_int_equal(unpack(coding, packed.bytes, cut, count, &back), TT_ERR_INVALID);
        assert_true(why.text[0]);
        tt_text_fini(&back);
        tt_text_fini(&packed);
        free(bytes);
    }
}

/* 64 MiB of zeros in 64 KiB: refused when it has come to the limit, with about as much memory. */
static void test_bomb(void **state) {
    (void)state;
    enum { BOMB = 64 << 20, LIMIT = 1 << 20 };
    char *zeros = calloc(BOMB, 1);
    struct tt_text packed = pack(TT_CODING_GZIP, zeros, BOMB), back;
    free(zeros);
    assert_true(packed.length < BOMB / 200);
    assert_int_equal(unpack(TT_CODING_GZIP, packed.bytes, packed.length, LIMIT, &back),
                     TT_ERR_BUSY);
    assert_non_null(strstr(why.text, "1048576"));
    assert_true(back.capacity <= 4 * LIMIT);
    tt_text_fini(&back);
    tt_text_fini(&packed);
}

static void test_what_is_no_coding(void **state) {
    (void)state;
    static const char text[] = "a text of no coding at all, and long enough";
    struct tt_text back, one = pack(TT_CODING_GZIP, text, sizeof(text));
    struct tt_text other = pack(TT_CODING_DEFLATE, text, sizeof(text));
    for (int coding = TT_CODING_GZIP; coding <= TT_CODING_DEFLATE; coding++) {
        assert_int_equal(unpack((enum tt_coding)coding, text, sizeof(text), 1000, &back),
                         TT_ERR_INVALID);
        tt_text_fini(&back);
        assert_int_equal(unpack((enum tt_coding)coding, "", 0, 1000, &back), TT_ERR_INVALID);
        tt_text_fini(&back);
    }
    assert_int_equal(unpack(TT_CODING_DEFLATE, one.bytes, one.length, 1000, &back), TT_ERR_INVALID);
    tt_text_fini(&back);
    assert_int_equal(unpack(TT_CODING_GZIP, other.bytes, other.length, 1000, &back),
                     TT_ERR_INVALID);
    tt_text_fini(&back);
    one.bytes[one.length - 2] ^= 1; /* the check sum's neighbour */
    assert_int_equal(unpack(TT_CODING_GZIP, one.bytes, one.length, 1000, &back), TT_ERR_INVALID);
    tt_text_fini(&back);
    tt_text_append(&other, "x", 1);
    assert_int_equal(unpack(TT_CODING_DEFLATE, other.bytes, other.length, 1000, &back),
                     TT_ERR_INVALID);
    tt_text_fini(&back);
    tt_text_fini(&one);
    tt_text_fini(&other);
}

/* A gzip file may be several, one behind the other; together they are under the limit, too. */
static void test_members(void **state) {
    (void)state;
    struct tt_text file = pack(TT_CODING_GZIP, "hello, ", 7), back;
    struct tt_text second = pack(TT_CODING_GZIP, "world", 5);
    tt_text_append(&file, second.bytes, second.length);
    assert_int_equal(unpack(TT_CODING_GZIP, file.bytes, file.length, 12, &back), TT_OK);
    assert_int_equal(back.length, 12);
    assert_memory_equal(back.bytes, "hello, world", 12);
    tt_text_fini(&back);
    assert_int_equal(unpack(TT_CODING_GZIP, file.bytes, file.length, 11, &back), TT_ERR_BUSY);
    tt_text_fini(&back);
    tt_text_fini(&second);
    tt_text_fini(&file);
}

static void test_headers(void **state) {
    (void)state;
    static const struct {
        const char *value;
        enum tt_coding expected;
    } liked[] = {{"", TT_CODING_IDENTITY},
                 {"gzip", TT_CODING_GZIP},
                 {"GZip", TT_CODING_GZIP},
                 {"deflate", TT_CODING_DEFLATE},
                 {"gzip, deflate, br, zstd", TT_CODING_GZIP},
                 {"deflate, gzip", TT_CODING_GZIP},
                 {"gzip;q=0.5, deflate;q=0.8", TT_CODING_DEFLATE},
                 {"gzip; q=0", TT_CODING_IDENTITY},
                 {"identity;q=1, gzip;q=0.5", TT_CODING_IDENTITY},
                 {"*", TT_CODING_GZIP},
                 {"*;q=0", TT_CODING_IDENTITY},
                 {"gzip;q=0, *", TT_CODING_DEFLATE},
                 {"br", TT_CODING_IDENTITY},
                 {"identity", TT_CODING_IDENTITY},
                 {",, ,", TT_CODING_IDENTITY},
                 {"gzip;q=2x", TT_CODING_IDENTITY},
                 {"gzip;q=", TT_CODING_IDENTITY}};
    for (size_t i = 0; i < TT_COUNT(liked); i++)
        if (tt_coding_choose(liked[i].value) != liked[i].expected)
            fail_msg("'%s' gives %d", liked[i].value, tt_coding_choose(liked[i].value));
    assert_int_equal(tt_coding_parse("gzip"), TT_CODING_GZIP);
    assert_int_equal(tt_coding_parse("x-gzip"), TT_CODING_GZIP);
    assert_int_equal(tt_coding_parse("Deflate"), TT_CODING_DEFLATE);
    assert_int_equal(tt_coding_parse(""), TT_CODING_IDENTITY);
    assert_int_equal(tt_coding_parse("identity"), TT_CODING_IDENTITY);
    assert_int_equal(tt_coding_parse("gzip, deflate"), TT_CODING_UNKNOWN);
    assert_int_equal(tt_coding_parse("br"), TT_CODING_UNKNOWN);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_round_trip),        cmocka_unit_test(test_bomb),
        cmocka_unit_test(test_what_is_no_coding), cmocka_unit_test(test_members),
        cmocka_unit_test(test_headers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
