#include "actuate/timed_command.h"

#include "base/clock.h"
#include "base/spawn.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { LOOK_MS = 20 };

/* ---- words ---- */

/* The next word, unquoted in place; NULL: none is left, or a quote is open. */
static char *next_word(char **at, bool *out_is_open) {
    char *from = *at + strspn(*at, " \t\n"), *to = from, *word = from;
    *out_is_open = false;
    if (!*from)
        return NULL;
    for (char quote = '\0'; *from && (quote || !strchr(" \t\n", *from)); from++) {
        if (quote ? *from == quote : *from == '\'' || *from == '"')
            quote = quote ? '\0' : *from;
        else
            *to++ = *from;
        *out_is_open = quote != '\0';
    }
    *at = *from ? from + 1 : from;
    *to = '\0';
    return *out_is_open ? NULL : word;
}

char **tt_command_words(const char *line, struct tt_error *why) {
    char *copy = strdup(line), *at = copy;
    char **words = copy ? calloc(strlen(line) / 2 + 3, sizeof(*words)) : NULL;
    if (!words) {
        free(copy);
        tt_fail(TT_ERR_NO_MEMORY, why, "out of memory");
        return NULL;
    }
    bool is_open;
    size_t count = 0;
    words[count++] = copy; /* the block; the words follow */
    for (char *word; (word = next_word(&at, &is_open));)
        words[count++] = word;
    if (!is_open && count > 1)
        return words + 1;
    tt_fail(TT_ERR_INVALID, why, is_open ? "'%s': a quote is open" : "'%s' has no word", line);
    tt_command_words_free(words + 1);
    return NULL;
}

void tt_command_words_free(char **take_words) {
    if (!take_words)
        return;
    free(take_words[-1]);
    free(take_words - 1);
}

/* ---- a run ---- */

static void keep(struct tt_text *out, const char *bytes, size_t count) {
    size_t room = out->length < TT_COMMAND_OUTPUT_BYTES ? TT_COMMAND_OUTPUT_BYTES - out->length : 0;
    tt_text_append(out, bytes, count < room ? count : room);
}

static void strip(struct tt_text *out) {
    while (out->length > 0 && strchr(" \r\n\t", out->bytes[out->length - 1]))
        out->bytes[--out->length] = '\0';
}

/* Reads what there is; false: the end of the pipe. */
static bool read_some(int fd, struct tt_text *out) {
    char bytes[4096];
    ssize_t count;
    while ((count = read(fd, bytes, sizeof(bytes))) > 0)
        keep(out, bytes, (size_t)count);
    return count < 0;
}

/* Until the program has ended. Its children may hold the pipe longer, and are not waited for. */
static enum tt_err watch(const struct tt_timed_command *self, pid_t child, int fd,
                         struct tt_text *out, int *out_status, struct tt_error *why) {
    int64_t until_at = tt_instant_add(tt_clock_now(), self->limit_ns);
    struct pollfd pipe_fd = {.fd = fd, .events = POLLIN};
    for (;;) {
        if (poll(&pipe_fd, 1, LOOK_MS) > 0 && !read_some(fd, out))
            pipe_fd.fd = -1; /* poll() only waits from now on */
        pid_t ended = waitpid(child, out_status, WNOHANG);
        if (ended == child) {
            (void)read_some(fd, out);
            return TT_OK;
        }
        bool is_cancelled = tt_flag_is_raised(self->stopping);
        if (!is_cancelled && tt_clock_now() < until_at)
            continue;
        kill(-child, SIGKILL);
        while (waitpid(child, out_status, 0) < 0 && errno == EINTR)
            continue;
        (void)read_some(fd, out);
        strip(out);
        if (is_cancelled)
            return tt_fail(TT_ERR_CANCELLED, why, "%s: the server stops", self->words[0]);
        return tt_fail(TT_ERR_TIMEOUT, why, "%s did not end in %lld ms and was killed%s%s",
                       self->words[0], (long long)(self->limit_ns / TT_MS), out->length ? ": " : "",
                       tt_text_string(out));
    }
}

static enum tt_err judge(const struct tt_timed_command *self, int status, struct tt_text *out,
                         struct tt_error *why) {
    const char *colon = out->length ? ": " : "", *said = tt_text_string(out);
    if (WIFSIGNALED(status))
        return tt_fail(TT_ERR_INVALID, why, "%s ended by signal %d (%s)%s%s", self->words[0],
                       WTERMSIG(status), strsignal(WTERMSIG(status)), colon, said);
    if (WEXITSTATUS(status) != 0)
        return tt_fail(TT_ERR_INVALID, why, "%s ended with exit code %d%s%s", self->words[0],
                       WEXITSTATUS(status), colon, said);
    return TT_OK;
}

enum tt_err tt_timed_command_run(const struct tt_timed_command *self, struct tt_text *out_output,
                                 struct tt_error *why) {
    int pipes[2], status = 0;
    pid_t child;
    if (pipe2(pipes, O_CLOEXEC | O_NONBLOCK) != 0)
        return tt_fail(TT_ERR_IO, why, "%s: cannot make a pipe: %s", self->words[0],
                       strerror(errno));
    (void)fcntl(pipes[1], F_SETFL, 0); /* the program's own end blocks */
    const int files[] = {TT_SPAWN_NULL, pipes[1], pipes[1]};
    int error = tt_spawn(self->words[0], self->words, files, TT_COUNT(files), &child);
    close(pipes[1]);
    if (error) {
        close(pipes[0]);
        return tt_fail(TT_ERR_IO, why, "%s: cannot be started: %s", self->words[0],
                       strerror(error));
    }
    enum tt_err err = watch(self, child, pipes[0], out_output, &status, why);
    close(pipes[0]);
    strip(out_output);
    return err ? err : judge(self, status, out_output, why);
}
