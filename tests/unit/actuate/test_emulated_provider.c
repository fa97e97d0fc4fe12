/* Processes as machines: started, found again by another scheduler, stopped, and fenced by epoch.
 * The processes are shells that wait. */
#include "actuate/emulated_provider.h"

#include "base/clock.h"

#include <dirent.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

static const char *const names[] = {"b1", "b2", "b3"};
/* Becomes a process that ends with SIGTERM; "--node" and the name are its parameters. */
static const char *const waits[] = {"sh", "-c", "echo $1; exec sleep 1000", NULL};
static const char *const ends[] = {"sh", "-c", "exit 0", NULL};
static struct tt_flag never;

struct world {
    char folder[64];
    struct tt_scale_provider provider;
};

static void open_with(struct world *self, const char *const *args) {
    struct tt_error why;
    const struct tt_emulated_options options = {
        .folder = self->folder, .args = args, .program = "sh"};
    assert_int_equal(tt_emulated_provider_open(&options, &self->provider, &why), TT_OK);
}

static int set_up(void **state) {
    struct world *self = calloc(1, sizeof(*self));
    assert_non_null(self);
    snprintf(self->folder, sizeof(self->folder), "/tmp/tutti-emulated-XXXXXX");
    assert_non_null(mkdtemp(self->folder));
    *state = self;
    return 0;
}

/* Ends the processes that a failed test has left, too. */
static int tear_down(void **state) {
    struct world *self = *state;
    for (size_t i = 0; i < TT_COUNT(names); i++) {
        char path[100];
        long pid = 0;
        snprintf(path, sizeof(path), "%s/%s.lock", self->folder, names[i]);
        FILE *file = fopen(path, "re");
        if (file && fscanf(file, "%ld", &pid) == 1 && pid > 1)
            kill((pid_t)pid, SIGKILL);
        if (file)
            fclose(file);
    }
    DIR *folder = opendir(self->folder);
    assert_non_null(folder);
    for (struct dirent *entry; (entry = readdir(folder));)
        (void)unlinkat(dirfd(folder), entry->d_name, 0);
    closedir(folder);
    assert_int_equal(rmdir(self->folder), 0);
    free(self);
    return 0;
}

static enum tt_err agree(void *context, struct tt_error *why) {
    (void)context;
    (void)why;
    return TT_OK;
}

static struct tt_scale_request request_of(int32_t count, uint64_t epoch) {
    return (struct tt_scale_request){.pool = "gold",
                                     .count = count,
                                     .names = names,
                                     .node_count = 3,
                                     .epoch = epoch,
                                     .stopping = &never,
                                     .confirm = agree};
}

static enum tt_err scale(const struct world *self, int32_t count, uint64_t epoch,
                         struct tt_error *why) {
    int32_t found = -1;
    struct tt_scale_request request = request_of(count, epoch);
    return self->provider.scale(self->provider.self, &request, &found, why);
}

/* Up to the last that runs. */
static int32_t look(const struct world *self) {
    struct tt_error why;
    int32_t found = -1;
    struct tt_scale_request request = request_of(0, 1);
    assert_int_equal(self->provider.look(self->provider.self, &request, &found, &why), TT_OK);
    return found;
}

static void await_count(const struct world *self, int32_t count) {
    int64_t until_at = tt_clock_now() + 60 * TT_S;
    while (look(self) != count) {
        if (tt_clock_now() > until_at)
            fail_msg("never %d", count);
        usleep(1000);
    }
}

static void read_file(const struct world *self, const char *name, char *out, size_t capacity) {
    char path[100];
    snprintf(path, sizeof(path), "%s/%s", self->folder, name);
    FILE *file = fopen(path, "re");
    assert_non_null(file);
    out[fread(out, 1, capacity - 1, file)] = '\0';
    fclose(file);
}

static void processes_are_started_and_stopped(void **state) {
    struct world *self = *state;
    struct tt_error why;
    char text[100] = "";
    open_with(self, waits);
    assert_int_equal(look(self), 0);
    assert_int_equal(scale(self, 2, 5, &why), TT_OK);
    assert_int_equal(look(self), 2);
    assert_int_equal(scale(self, 2, 5, &why), TT_OK); /* nothing to do */
    int64_t until_at = tt_clock_now() + 60 * TT_S;
    while (strcmp(text, "b2\n") != 0 && tt_clock_now() < until_at)
        read_file(self, "b2.log", text, sizeof(text));
    assert_string_equal(text, "b2\n"); /* started once */
    assert_int_equal(scale(self, 3, 5, &why), TT_OK);
    assert_int_equal(look(self), 3);
    assert_int_equal(scale(self, 1, 5, &why), TT_OK);
    await_count(self, 1);
    assert_int_equal(scale(self, 0, 5, &why), TT_OK);
    await_count(self, 0);
    self->provider.close(self->provider.self);
}

/* Processes do not end with their scheduler; the next one finds them. */
static void another_scheduler_finds_them(void **state) {
    struct world *self = *state;
    struct tt_error why;
    open_with(self, waits);
    assert_int_equal(scale(self, 2, 5, &why), TT_OK);
    self->provider.close(self->provider.self);
    open_with(self, waits);
    assert_int_equal(look(self), 2);
    assert_int_equal(scale(self, 1, 6, &why), TT_OK);
    await_count(self, 1);
    assert_int_equal(scale(self, 0, 6, &why), TT_OK);
    await_count(self, 0);
    self->provider.close(self->provider.self);
}

static void a_deposed_primary_is_refused(void **state) {
    struct world *self = *state;
    struct tt_error why;
    open_with(self, waits);
    assert_int_equal(scale(self, 1, 70000, &why), TT_OK);
    assert_int_equal(scale(self, 3, 69999, &why), TT_ERR_UNAVAILABLE);
    assert_non_null(strstr(why.text, "a primary of epoch 70000 has scaled; this one has 69999"));
    assert_int_equal(look(self), 1);
    assert_int_equal(scale(self, 0, 70000, &why), TT_OK);
    await_count(self, 0);
    self->provider.close(self->provider.self);
}

static void a_process_that_ends_is_started_again(void **state) {
    struct world *self = *state;
    struct tt_error why;
    open_with(self, ends);
    for (int32_t i = 0; i < 3; i++) {
        assert_int_equal(scale(self, 1, 5, &why), TT_OK);
        await_count(self, 0);
    }
    self->provider.close(self->provider.self);
}

static void what_is_wrong_is_said(void **state) {
    struct world *self = *state;
    struct tt_error why;
    char path[100];
    const struct tt_emulated_options nowhere = {
        .folder = "/no/such/folder", .args = waits, .program = "sh"};
    assert_int_equal(tt_emulated_provider_open(&nowhere, &self->provider, &why), TT_ERR_IO);
    assert_string_equal(why.text, "/no/such/folder: No such file or directory");
    const struct tt_emulated_options none = {
        .folder = self->folder, .args = waits, .program = "/no/such/program"};
    assert_int_equal(tt_emulated_provider_open(&none, &self->provider, &why), TT_OK);
    assert_int_equal(scale(self, 1, 5, &why), TT_ERR_IO);
    assert_string_equal(why.text, "node b1 cannot be started: No such file or directory");
    assert_int_equal(look(self), 0);
    /* A link in the folder is not followed. */
    snprintf(path, sizeof(path), "%s/b1.lock", self->folder);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(symlink("/etc/passwd", path), 0);
    assert_int_equal(scale(self, 1, 5, &why), TT_ERR_IO);
    assert_int_equal(unlink(path), 0);
    self->provider.close(self->provider.self);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(processes_are_started_and_stopped, set_up, tear_down),
        cmocka_unit_test_setup_teardown(another_scheduler_finds_them, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_deposed_primary_is_refused, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_process_that_ends_is_started_again, set_up, tear_down),
        cmocka_unit_test_setup_teardown(what_is_wrong_is_said, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
