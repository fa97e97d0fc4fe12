/* threaded */
/* Certificates of a node that change: readers get the new ones, broken files change nothing, and
 * what a reader holds stays until it reads again. */
#include "fleet/live_tls.h"

#include "base/log/log.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "unit/certificates.h"

enum { LOOKS = 6000, LOOK_US = 10000 }; /* a minute */

static struct tt_error why;

static int setup(void **state) {
    (void)state;
    assert_non_null(mkdtemp(folder));
    struct signer ca = make("ca", NULL, 7200), node = make("node", &ca, 7200);
    forget(&ca);
    forget(&node);
    return 0;
}

static int teardown(void **state) {
    (void)state;
    const char *names[] = {"ca.pem", "ca.key", "node.pem", "node.key"};
    for (size_t i = 0; i < TT_COUNT(names); i++)
        unlink(path_of(names[i]));
    return rmdir(folder);
}

static struct tt_cluster_tls_files files(void) {
    return (struct tt_cluster_tls_files){.certificate = strdup(path_of("node.pem")),
                                         .key = strdup(path_of("node.key")),
                                         .ca = strdup(path_of("ca.pem"))};
}

static void free_files(const struct tt_cluster_tls_files *self) {
    free((char *)self->certificate);
    free((char *)self->key);
    free((char *)self->ca);
}

/* Adds what the log says to `said`, until that contains the text. */
static void await_said(int fd, struct tt_text *said, const char *wanted) {
    for (int32_t i = 0; i < LOOKS && !strstr(tt_text_string(said), wanted); i++) {
        char bytes[4096];
        ssize_t got = read(fd, bytes, sizeof(bytes));
        if (got > 0)
            tt_text_append(said, bytes, (size_t)got);
        else
            usleep(LOOK_US);
    }
    assert_non_null(strstr(tt_text_string(said), wanted));
}

static void without_files_there_is_no_tls(void **state) {
    (void)state;
    struct tt_live_tls tls;
    struct tt_published_view view = {0};
    const struct tt_cluster_tls_files none = {.certificate = NULL};
    assert_int_equal(tt_live_tls_init(&tls, &none, NULL, &why), TT_OK);
    assert_null(tt_live_tls_get(&tls, &view)->dialer);
    assert_null(tt_live_tls_get(&tls, &view)->listener);
    tt_published_view_fini(&view);
    tt_live_tls_fini(&tls);
}

static void files_that_are_not_there(void **state) {
    (void)state;
    struct tt_live_tls tls;
    struct tt_cluster_tls_files some = {.certificate = "/nonexistent"};
    assert_int_equal(tt_live_tls_init(&tls, &some, NULL, &why), TT_ERR_INVALID);
    some.key = some.ca = "/nonexistent";
    assert_int_equal(tt_live_tls_init(&tls, &some, NULL, &why), TT_ERR_NOT_FOUND);
    tt_live_tls_fini(&tls);
}

static void changes_are_read(void **state) {
    (void)state;
    struct tt_cluster_tls_files own = files();
    struct tt_live_tls tls;
    struct tt_published_view view = {0}, slow = {0};
    struct tt_text said;
    struct tt_log log;
    int ends[2];
    assert_int_equal(pipe2(ends, O_NONBLOCK | O_CLOEXEC), 0);
    tt_log_init(&log, ends[1], false);
    tt_text_init(&said);
    assert_int_equal(tt_live_tls_init(&tls, &own, &log, &why), TT_OK);
    const struct tt_tls_context *first = tt_live_tls_get(&tls, &view)->listener;
    const struct tt_cluster_tls *held = tt_live_tls_get(&tls, &slow);
    assert_non_null(first);
    assert_ptr_equal(tt_live_tls_get(&tls, &view)->listener, first);

    FILE *broken = fopen(own.certificate, "w");
    assert_non_null(broken);
    fputs("no certificate", broken);
    fclose(broken);
    await_said(ends[0], &said, "cluster: the former certificate stays in force: ");
    assert_ptr_equal(tt_live_tls_get(&tls, &view)->listener, first);

    struct signer ca = make("ca", NULL, 7200), node = make("node", &ca, 7200);
    forget(&ca);
    forget(&node);
    await_said(ends[0], &said, "cluster: certificate read again: ");
    assert_ptr_not_equal(tt_live_tls_get(&tls, &view)->listener, first);
    assert_ptr_equal(held->listener, first); /* its reader has not read again */

    tt_published_view_fini(&view);
    tt_published_view_fini(&slow);
    tt_live_tls_fini(&tls);
    tt_text_fini(&said);
    close(ends[0]);
    close(ends[1]);
    free_files(&own);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(without_files_there_is_no_tls),
        cmocka_unit_test(files_that_are_not_there),
        cmocka_unit_test(changes_are_read),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
