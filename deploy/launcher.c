/* /coredns of the container image: the server as a program of its own. /node-server is the same file, and /node-cache has another module.
 *
 * It embeds the interpreter, so that the file capability for port 53 is on /coredns alone, no environment variable
 * and no file in the working folder changes what is imported, and no shell is needed. As process 1 of a container it
 * first forks: the parent hands signals on and reaps what an exec credential plugin leaves behind, and ends with the
 * server's own status.
 */
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <errno.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

/* Blocks the signals that end a process without handlers. The server takes those that have come once it has its own (fastdns/server/early.py). */
static void block_early(void)
{
    static const int numbers[] = {SIGUSR1, SIGUSR2, SIGHUP, SIGTERM, SIGINT, SIGQUIT};
    sigset_t early;

    sigemptyset(&early);
    for (size_t i = 0; i < sizeof(numbers) / sizeof(*numbers); i++)
        sigaddset(&early, numbers[i]);
    sigprocmask(SIG_BLOCK, &early, NULL);
}

/* Runs in process 1 until the server has ended. Returns its status as a shell tells it. */
static int watch(pid_t server, const sigset_t *all)
{
    for (;;) {
        int signal = sigwaitinfo(all, NULL);
        if (signal < 0)
            continue;
        if (signal != SIGCHLD) {
            kill(server, signal);
            continue;
        }
        for (;;) {
            int status;
            pid_t ended = waitpid(-1, &status, WNOHANG);
            if (ended == server)
                return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
            if (ended <= 0)
                break;
        }
    }
}

#ifndef FASTDNS_MODULE
#define FASTDNS_MODULE "fastdns"
#endif

/* Becomes the server: python -I -m fastdns ARGUMENTS. */
static int serve(int argc, char **argv)
{
    PyConfig config;
    PyStatus status;

    PyConfig_InitIsolatedConfig(&config);
    config.write_bytecode = 0;
    config.install_signal_handlers = 1;
    config.parse_argv = 0;
    config.buffered_stdio = 1;
    status = PyConfig_SetBytesString(&config, &config.run_module, FASTDNS_MODULE);
    if (!PyStatus_Exception(status))
        status = PyConfig_SetBytesString(&config, &config.program_name, FASTDNS_PYTHON);
    if (!PyStatus_Exception(status))
        status = PyConfig_SetBytesArgv(&config, argc, argv);
    if (!PyStatus_Exception(status))
        status = Py_InitializeFromConfig(&config);
    PyConfig_Clear(&config);
    if (PyStatus_Exception(status))
        Py_ExitStatusException(status);
    return Py_RunMain();
}

int main(int argc, char **argv)
{
    block_early();
    if (getpid() == 1) {
        sigset_t all, before;
        sigfillset(&all);
        sigprocmask(SIG_BLOCK, &all, &before);
        pid_t server = fork();
        if (server > 0)
            return watch(server, &all);
        if (server == 0)
            prctl(PR_SET_PDEATHSIG, SIGKILL);
        /* Where fork fails, serve all the same. */
        sigprocmask(SIG_SETMASK, &before, NULL);
    }
    return serve(argc, argv);
}
