/* Programs that are started: what they get, and what they do not. */
#include "base/spawn.h"

#include "base/err.h"

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

/* Runs a shell's command whose standard output is a pipe; returns what it wrote. */
static void run(const char *command, const char *const *environment, char *out, size_t capacity) {
    const char *const args[] = {"sh", "-c", command, NULL};
    int pipes[2], status;
    pid_t pid = 0;
    size_t length = 0;
    assert_int_equal(pipe2(pipes, O_CLOEXEC), 0);
    const int files[] = {TT_SPAWN_NULL, pipes[1], TT_SPAWN_NULL, pipes[1]};
    assert_int_equal(environment
                         ? tt_spawn_in("sh", args, environment, files, TT_COUNT(files), &pid)
                         : tt_spawn("sh", args, files, TT_COUNT(files), &pid),
                     0);
    close(pipes[1]);
    for (ssize_t got; (got = read(pipes[0], out + length, capacity - length - 1)) > 0;)
        length += (size_t)got;
    out[length] = '\0';
    close(pipes[0]);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status));
}

static void test_files(void **state) {
    (void)state;
    char said[1000];
    int more = open("/dev/zero", O_RDONLY); /* without O_CLOEXEC */
    assert_true(more >= 0);
    run("cat; echo one; echo three >&3; ls /proc/self/fd | tr '\\n' ' '", NULL, said, sizeof(said));
    /* ls itself opens the folder. */
    assert_string_equal(said, "one\nthree\n0 1 2 3 4 ");
    close(more);
}

/* The caller's files are among the numbers that the child's get, in another order. */
static void test_files_that_change_places(void **state) {
    (void)state;
    int low = open("/dev/null", O_RDWR | O_CLOEXEC), pipes[2], status;
    char said[3] = "";
    pid_t pid = 0;
    const char *const args[] = {"sh", "-c", "printf a >&5; printf b >&6", NULL};
    assert_int_equal(pipe2(pipes, O_CLOEXEC), 0);
    assert_in_range(pipes[1], 4, 7); /* one of the child's numbers */
    const int files[] = {-1, -1, -1, low, low, pipes[1], pipes[1], low};
    assert_int_equal(tt_spawn("/bin/sh", args, files, TT_COUNT(files), &pid), 0);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(read(pipes[0], said, 2), 2);
    assert_string_equal(said, "ab");
    close(low);
    close(pipes[0]);
    close(pipes[1]);
}

static void test_environment(void **state) {
    (void)state;
    static const char *const environment[] = {"PATH=/bin:/usr/bin", "WORD=tutti", NULL};
    char said[1000];
    run("echo $WORD-$HOME-", environment, said, sizeof(said));
    assert_string_equal(said, "tutti--\n");
}

static void test_signals_and_group(void **state) {
    (void)state;
    char said[1000];
    sigset_t blocked;
    sigemptyset(&blocked);
    sigaddset(&blocked, SIGUSR1);
    assert_int_equal(sigprocmask(SIG_BLOCK, &blocked, NULL), 0);
    assert_true(signal(SIGUSR2, SIG_IGN) != SIG_ERR);
    run("sed -n 's/^SigBlk://p; s/^SigIgn://p' /proc/self/status", NULL, said, sizeof(said));
    char *end;
    assert_int_equal(strtoull(said, &end, 16), 0);
    assert_int_equal(strtoull(end, NULL, 16) >> (SIGUSR2 - 1) & 1, 0);
    run("[ $(cut -d' ' -f5 /proc/$$/stat) = $$ ] && echo leader", NULL, said, sizeof(said));
    assert_string_equal(said, "leader\n");
    sigprocmask(SIG_UNBLOCK, &blocked, NULL);
    signal(SIGUSR2, SIG_DFL);
}

static void test_no_such_program(void **state) {
    (void)state;
    const char *const args[] = {"x", NULL};
    int files[] = {-1, -1, -1};
    pid_t pid = 7;
    assert_int_equal(tt_spawn("/no/such/program", args, files, 3, &pid), ENOENT);
    files[1] = 1 << 20; /* not open */
    assert_int_equal(tt_spawn("sh", args, files, 3, &pid), EBADF);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_files),           cmocka_unit_test(test_files_that_change_places),
        cmocka_unit_test(test_environment),     cmocka_unit_test(test_signals_and_group),
        cmocka_unit_test(test_no_such_program),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
