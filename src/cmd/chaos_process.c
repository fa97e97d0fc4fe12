#include "cmd/chaos_process.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { MAX_WORDS = 256 };

static enum tt_err read_link(pid_t pid, const char *name, struct tt_text *out,
                             struct tt_error *why) {
    char path[64], target[PATH_MAX];
    snprintf(path, sizeof(path), "/proc/%d/%s", (int)pid, name);
    ssize_t length = readlink(path, target, sizeof(target) - 1);
    if (length < 0)
        return tt_fail(TT_ERR_NOT_FOUND, why, "process %d: %s: %s", (int)pid, path,
                       strerror(errno));
    target[length] = '\0';
    tt_text_init(out);
    tt_text_puts(out, target);
    return out->failed ? tt_fail(TT_ERR_NO_MEMORY, why, "out of memory") : TT_OK;
}

static enum tt_err read_arguments(pid_t pid, struct tt_text *out, struct tt_error *why) {
    char path[64];
    snprintf(path, sizeof(path), "/proc/%d/cmdline", (int)pid);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return tt_fail(TT_ERR_NOT_FOUND, why, "%s: %s", path, strerror(errno));
    tt_text_init(out);
    ssize_t count = 0;
    for (char *room; (room = tt_text_reserve(out, 4096)) && (count = read(fd, room, 4096)) > 0;)
        out->length += (size_t)count;
    close(fd);
    bool is_whole = !out->failed && out->length > 0 && out->bytes[out->length - 1] == '\0';
    return is_whole ? TT_OK : tt_fail(TT_ERR_NOT_FOUND, why, "%s: no command line", path);
}

enum tt_err tt_chaos_process_find(struct tt_chaos_process *self, pid_t pid, struct tt_error *why) {
    *self = (struct tt_chaos_process){.pid = pid};
    enum tt_err err = read_link(pid, "exe", &self->program, why);
    if (!err)
        err = read_link(pid, "cwd", &self->folder, why);
    if (!err)
        err = read_link(pid, "fd/2", &self->log, why);
    if (!err)
        err = read_arguments(pid, &self->arguments, why);
    if (err)
        tt_chaos_process_fini(self);
    return err;
}

void tt_chaos_process_fini(struct tt_chaos_process *self) {
    tt_text_fini(&self->program);
    tt_text_fini(&self->arguments);
    tt_text_fini(&self->folder);
    tt_text_fini(&self->log);
    *self = (struct tt_chaos_process){0};
}

/* Z in the third field of /proc/PID/stat, or no such file. */
static bool has_ended(pid_t pid) {
    char path[64], state = 'Z';
    snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
    FILE *file = fopen(path, "re");
    if (file) {
        if (fscanf(file, "%*d (%*[^)]) %c", &state) != 1)
            state = 'Z';
        fclose(file);
    }
    return state == 'Z' || state == 'X';
}

void tt_chaos_process_kill(struct tt_chaos_process *self) {
    kill(self->pid, SIGKILL);
    while (!has_ended(self->pid)) {
        struct timespec moment = {.tv_nsec = 1000000};
        nanosleep(&moment, NULL);
    }
    waitpid(self->pid, NULL, WNOHANG); /* if this program started it */
    self->pid = 0;
}

void tt_chaos_process_freeze(const struct tt_chaos_process *self) { kill(self->pid, SIGSTOP); }

void tt_chaos_process_thaw(const struct tt_chaos_process *self) { kill(self->pid, SIGCONT); }

/* In the child: never returns. Only functions that are safe after fork. */
_Noreturn static void become(const struct tt_chaos_process *self, char *const *words) {
    int log = open(self->log.bytes, O_WRONLY | O_APPEND | O_CLOEXEC);
    if (log < 0)
        log = open("/dev/null", O_WRONLY | O_CLOEXEC);
    int none = open("/dev/null", O_RDWR | O_CLOEXEC);
    if (log >= 0)
        dup2(log, STDERR_FILENO);
    if (none >= 0) {
        dup2(none, STDIN_FILENO);
        dup2(none, STDOUT_FILENO);
    }
    setsid();
    if (chdir(self->folder.bytes) == 0)
        execv(self->program.bytes, words);
    _exit(127);
}

enum tt_err tt_chaos_process_start(struct tt_chaos_process *self, struct tt_error *why) {
    char *words[MAX_WORDS + 1];
    int32_t count = 0;
    for (size_t at = 0; at < self->arguments.length && count < MAX_WORDS; count++) {
        words[count] = self->arguments.bytes + at;
        at += strlen(words[count]) + 1;
    }
    words[count] = NULL;
    pid_t pid = fork();
    if (pid == 0)
        become(self, words);
    if (pid < 0)
        return tt_fail(TT_ERR_IO, why, "cannot start a process: %s", strerror(errno));
    self->pid = pid;
    return TT_OK;
}
