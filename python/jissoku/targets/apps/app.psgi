# The common contract as a PSGI application, without a framework.
#
# The folder of files is named by the environment's FILES. A delay blocks the process that was asked.
use strict;
use warnings;

my $files = $ENV{FILES};
my $hello = 'Hello, World!';

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
