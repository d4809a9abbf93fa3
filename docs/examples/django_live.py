"""Django's live tests on jissoku, with databases in memory and files below STATIC_URL."""

import threading

from django.contrib.staticfiles.testing import StaticLiveServerTestCase
from django.core.handlers.wsgi import WSGIHandler
from django.db import connections
from django.test.testcases import LiveServerThread

import jissoku


class JissokuThread(LiveServerThread):
    def run(self):
        self.is_over = threading.Event()
        application = self.static_handler(WSGIHandler())

        def with_shared_databases(environ, start_response):
            for alias, connection in self.connections_override.items():
                connections[alias] = connection
            return application(environ, start_response)

        try:
            address = f"{self.host}:{self.port}"
            with jissoku.serve_in_thread(with_shared_databases, listen=address) as server:
                self.port = server.port
                self.is_ready.set()
                self.is_over.wait()
        except Exception as error:
            self.error = error
            self.is_ready.set()

    def terminate(self):
        self.is_over.set()
        self.join()


class LiveTestCase(StaticLiveServerTestCase):
    host = "127.0.0.1"
    server_thread_class = JissokuThread
