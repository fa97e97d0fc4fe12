/* A growing string: against a naive model at random, at the edges by hand, and through files. */
#include "base/text.h"
#include "unit/seed.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

static char folder[] = "/tmp/tutti-text-XXXXXX";

static int make_folder(void **state) {
    (void)state;
    return mkdtemp(folder) ? 0 : -1;
}

static int remove_folder(void **state) {
    (void)state;
    return rmdir(folder); /* fails when a test, or a temporary file, was left behind */
}

static const char *in_folder(const char *name) {
    static char path[128];
    snprintf(path, sizeof(path), "%s/%s", folder, name);
    return path;
}

static void an_empty_text_is_an_empty_string(void **state) {
    (void)state;
    struct tt_text text;
    tt_text_init(&text);
    assert_string_equal(tt_text_string(&text), "");
    tt_text_append(&text, NULL, 0);
    tt_text_puts(&text, "");
    assert_int_equal(text.length, 0);
    assert_string_equal(tt_text_string(&text), "");
    tt_text_fini(&text);
    tt_text_fini(&text); /* twice is harmless */
}

static void appends_of_all_kinds_match_a_naive_model(void **state) {
    (void)state;
    unsigned seed = (unsigned)test_seed((uint64_t)time(NULL));
    static char model[1 << 20];
    for (int round = 0; round < 30; round++) {
        struct tt_text text;
        tt_text_init(&text);
        size_t length = 0;
        for (int step = 0; step < 200; step++) {
            char piece[700];
            size_t count = (size_t)rand_r(&seed) % (sizeof(piece) - 1);
            for (size_t i = 0; i < count; i++)
                piece[i] = (char)('a' + rand_r(&seed) % 26);
            piece[count] = '\0';
            switch (rand_r(&seed) % 4) {
            case 0: tt_text_puts(&text, piece); break;
            case 1: tt_text_append(&text, piece, count); break;
            case 2: tt_text_printf(&text, "%s", piece); break;
            default: {
                char *to = tt_text_reserve(&text, count);
                assert_non_null(to);
                memcpy(to, piece, count + 1);
                text.length += count;
            }
            }
            memcpy(model + length, piece, count + 1);
            length += count;
            assert_int_equal(text.length, length);
            assert_true(text.capacity > text.length);
        }
        assert_memory_equal(tt_text_string(&text), model, length + 1);
        tt_text_clear(&text);
        assert_string_equal(tt_text_string(&text), "");
        assert_true(text.capacity > 0);
        tt_text_fini(&text);
    }
}

/* printf goes by way of a small buffer: lengths around its size, and embedded zero bytes in append.
 */
static void what_xml_reads_as_its_own_is_escaped(void **state) {
    (void)state;
    struct tt_text text;
    tt_text_init(&text);
    tt_text_put_xml(&text, "a<b>&\"c'\n\x01\xC3\xA9");
    assert_string_equal(tt_text_string(&text), "a&lt;b&gt;&amp;&quot;c&#39;\xC3\xA9");
    tt_text_fini(&text);
}

/* Texts of any length with one byte of each value, and random ones, against a look at each byte. */
static void plain_bytes_are_those_of_a_naive_model(void **state) {
    (void)state;
    unsigned seed = (unsigned)test_seed((uint64_t)time(NULL));
    for (int round = 0; round < 20000; round++) {
        char bytes[40];
        size_t length = (size_t)rand_r(&seed) % sizeof(bytes), naive = 0;
        for (size_t i = 0; i < length; i++)
            bytes[i] = (char)(rand_r(&seed) % 20 ? 'a' + rand_r(&seed) % 26 : rand_r(&seed) % 256);
        if (length > 0)
            bytes[(size_t)rand_r(&seed) % length] = (char)(round % 256);
        while (naive < length && bytes[naive] >= ' ' && bytes[naive] <= '~' &&
               bytes[naive] != '"' && bytes[naive] != '%')
            naive++;
        assert_int_equal(tt_text_plain_bytes(bytes, length, '"', '%'), naive);
    }
}

static void formatted_text_of_every_length(void **state) {
    (void)state;
    for (int length = 0; length < 600; length++) {
        struct tt_text text;
        tt_text_init(&text);
        tt_text_printf(&text, "%*s|", length, "");
        assert_int_equal(text.length, length + 1);
        assert_int_equal(tt_text_string(&text)[length], '|');
        tt_text_append(&text, "a\0b", 3);
        assert_memory_equal(text.bytes + length + 1, "a\0b", 4);
        tt_text_fini(&text);
    }
}

static void an_impossible_size_fails_once_and_for_all(void **state) {
    (void)state;
    struct tt_text text;
    tt_text_init(&text);
    tt_text_puts(&text, "kept");
    assert_null(tt_text_reserve(&text, SIZE_MAX - 2));
    assert_true(text.failed);
    tt_text_puts(&text, "ignored");
    assert_int_equal(text.length, 4);
    assert_null(tt_text_reserve(&text, 1));
    struct tt_error why;
    assert_int_equal(tt_text_write_file(in_folder("never"), &text, &why), TT_ERR_NO_MEMORY);
    assert_int_equal(access(in_folder("never"), F_OK), -1);
    tt_text_clear(&text); /* a fresh start */
    tt_text_puts(&text, "again");
    assert_string_equal(tt_text_string(&text), "again");
    tt_text_fini(&text);
}

static void files_come_back_as_they_went(void **state) {
    (void)state;
    const size_t sizes[] = {0, 1, 65535, 65536, 65537, 300000};
    for (size_t i = 0; i < TT_COUNT(sizes); i++) {
        struct tt_text text, back;
        struct tt_error why;
        tt_text_init(&text);
        for (size_t n = 0; n < sizes[i]; n++)
            tt_text_append(&text, &(char){(char)(n * 31)}, 1);
        assert_int_equal(tt_text_write_file(in_folder("file"), &text, &why), TT_OK);
        assert_int_equal(tt_text_read_file(in_folder("file"), sizes[i], &back, &why), TT_OK);
        assert_int_equal(back.length, sizes[i]);
        if (sizes[i])
            assert_memory_equal(back.bytes, text.bytes, sizes[i]);
        tt_text_fini(&back);
        if (sizes[i]) {
            struct tt_text untouched = {.length = 77};
            assert_int_equal(tt_text_read_file(in_folder("file"), sizes[i] - 1, &untouched, &why),
                             TT_ERR_INVALID);
            assert_int_equal(untouched.length, 77);
            assert_non_null(strstr(why.text, "limit"));
        }
        tt_text_fini(&text);
        assert_int_equal(unlink(in_folder("file")), 0);
    }
}

static void what_cannot_be_read_is_named(void **state) {
    (void)state;
    struct tt_text text = {.length = 77};
    struct tt_error why;
    assert_int_equal(tt_text_read_file(in_folder("absent"), 10, &text, &why), TT_ERR_NOT_FOUND);
    assert_non_null(strstr(why.text, in_folder("absent")));
    assert_int_equal(tt_text_read_file(folder, 10, &text, &why), TT_ERR_IO);
    assert_non_null(strstr(why.text, "directory"));
    assert_int_equal(text.length, 77);
}

static void what_cannot_be_written_leaves_no_trace(void **state) {
    (void)state;
    struct tt_text text;
    struct tt_error why;
    tt_text_init(&text);
    tt_text_puts(&text, "new");
    assert_int_equal(tt_text_write_file(in_folder("no/such"), &text, &why), TT_ERR_IO);
    assert_non_null(strstr(why.text, "no/such"));
    /* A folder stands in the way of the last step: its temporary file must go too (remove_folder
     * looks). */
    assert_int_equal(mkdir(in_folder("taken"), 0700), 0);
    assert_int_equal(tt_text_write_file(in_folder("taken"), &text, &why), TT_ERR_IO);
    assert_int_equal(rmdir(in_folder("taken")), 0);
    tt_text_fini(&text);
}

static void integers(void **state) {
    (void)state;
    static const struct {
        int64_t value;
        const char *text;
    } cases[] = {{0, "0"},
                 {7, "7"},
                 {9, "9"},
                 {10, "10"},
                 {99, "99"},
                 {-100, "-100"},
                 {999999999999999999, "999999999999999999"},
                 {1000000000000000000, "1000000000000000000"},
                 {-1, "-1"},
                 {1234567890123, "1234567890123"},
                 {INT64_MAX, "9223372036854775807"},
                 {INT64_MIN, "-9223372036854775808"}};
    for (size_t i = 0; i < TT_COUNT(cases); i++) {
        struct tt_text text;
        tt_text_init(&text);
        tt_text_put_integer(&text, cases[i].value);
        assert_string_equal(tt_text_string(&text), cases[i].text);
        tt_text_fini(&text);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(integers),
        cmocka_unit_test(an_empty_text_is_an_empty_string),
        cmocka_unit_test(appends_of_all_kinds_match_a_naive_model),
        cmocka_unit_test(what_xml_reads_as_its_own_is_escaped),
        cmocka_unit_test(plain_bytes_are_those_of_a_naive_model),
        cmocka_unit_test(formatted_text_of_every_length),
        cmocka_unit_test(an_impossible_size_fails_once_and_for_all),
        cmocka_unit_test(files_come_back_as_they_went),
        cmocka_unit_test(what_cannot_be_read_is_named),
        cmocka_unit_test(what_cannot_be_written_leaves_no_trace),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
