# The common contract as a PSGI application, without a framework.
#
# The folder of files is named by the environment's FILES. A delay blocks the process that was asked.
# With WORKERS, nothing but 503 is answered until the parent has forked so many (proc_pid_task(5)):
# who comes earlier keeps a core from the forking, and of many connections most are not served.
use strict;
use warnings;

my $files = $ENV{FILES};
my $hello = 'Hello, World!';
my $workers = $ENV{WORKERS} // 0;
my $all_here = !$workers;

sub are_all_here {
    my $parent = getppid;
    open my $list, '<', "/proc/$parent/task/$parent/children" or return 1;
    my @children = split ' ', <$list> // '';
    return @children >= $workers;
}

sub text {
    my ($body) = @_;
    return [ 200, [ 'Content-Type' => 'text/plain', 'Content-Length' => length $body ], [$body] ];
}

sub absent {
    return [ 404, [ 'Content-Type' => 'text/plain', 'Content-Length' => 9 ], ['Not Found'] ];
}

sub forty_two {
    my @fields = ( Server => 'bench', 'Content-Type' => 'text/plain', 'Content-Length' => 2 );
    return [ 200, \@fields, ['42'] ];
}

sub file {
    my ($name) = @_;
    my $path = "$files/$name";
    return absent() unless $name =~ /\A[\w-][\w.-]*\z/a && -f $path;
    open my $file, '<:raw', $path or return absent();
    my $body = do { local $/; <$file> };
    my @fields = ( 'Content-Type' => 'application/octet-stream', 'Content-Length' => length $body );
    return [ 200, \@fields, [$body] ];
}

sub {
    my ($env) = @_;
    my $path = $env->{PATH_INFO};
    return [ 503, [ 'Content-Length' => 0 ], [] ] unless $all_here ||= are_all_here();
    return absent() if $env->{REQUEST_METHOD} ne 'GET';
    return text($hello) if $path eq '/';
    return forty_two() if $path eq '/42';
    if ( $path eq '/delay' && $env->{QUERY_STRING} =~ /\Ams=([0-9]{1,5})\z/ ) {
        select undef, undef, undef, $1 / 1000;
        return text($hello);
    }
    return file($1) if $path =~ m{\A/files/(.*)\z}s;
    return absent();
};
